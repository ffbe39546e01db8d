//! Keys as flags: those of every run, and those of the lab's methods and optimisers.

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, CommandFactory};
use serde_json::Value;

use super::Cli;
use crate::{
    lab::{Keys, Lab, OwnKey},
    run::{FILE_KEYS, Layers, RUN_KEYS},
    train::TrainConfig,
};

/// Which keys a command takes as flags.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// All: it describes a run.
    Everything,
    /// The method and its own.
    Method,
    /// How a file of one's own is read.
    Files,
    /// The method and its own, and how a file is read.
    MethodAndFiles,
}

/// Commands that take keys, by their way from the root.
const COMMANDS: [(&[&str], Takes); 13] = [
    (&["train"], Takes::Everything),
    (&["config", "show"], Takes::Everything),
    (&["run"], Takes::Files),
    (&["reproduce"], Takes::Files),
    (&["params"], Takes::Method),
    (&["eval"], Takes::Files),
    (&["ablate"], Takes::Files),
    (&["baseline"], Takes::Files),
    (&["parity"], Takes::Method),
    (&["bench", "step"], Takes::Method),
    (&["bench", "epoch"], Takes::MethodAndFiles),
    (&["bench", "ablate"], Takes::MethodAndFiles),
    (&["bench", "inference"], Takes::MethodAndFiles),
];

/// The command line with a flag for every key.
pub fn command(lab: &Lab) -> Command {
    COMMANDS
        .iter()
        .fold(Cli::command(), |command, (way, takes)| at(command, way, &|leaf| with_flags(leaf, lab, *takes)))
}

/// The keys that were given as flags.
pub fn given(lab: &Lab, matches: &ArgMatches) -> Result<Keys> {
    let mut leaf = matches;
    while let Some((_, below)) = leaf.subcommand() {
        leaf = below;
    }
    let (layers, mut keys) = (Layers::new(lab), Keys::new());
    for key in crate::run::general_keys().into_iter().map(str::to_owned).chain(lab.own_keys().into_keys()) {
        if let Ok(Some(text)) = leaf.try_get_one::<String>(&id(&key)) {
            keys.insert(key.clone(), layers.flag(&key, text)?);
        }
    }
    Ok(keys)
}

fn at(command: Command, way: &[&str], change: &dyn Fn(Command) -> Command) -> Command {
    match way.split_first() {
        Some((first, rest)) => command.mut_subcommand(*first, |below| at(below, rest, change)),
        None => change(command),
    }
}

/// Apart from the ids of a command's own options.
fn id(key: &str) -> String {
    format!("key {key}")
}

fn with_flags(command: Command, lab: &Lab, takes: Takes) -> Command {
    let mut command = command;
    let method = takes != Takes::Files;
    if takes == Takes::Everything {
        // `config show` shows what there is of a run; `train` needs a whole one.
        let needed = if command.get_name() == "train" { &["task", "backbone"][..] } else { &[] };
        for key in RUN_KEYS {
            let mark = if needed.contains(&key.name) { " [needed]" } else { "" };
            let about = with_default(key.about, usual(lab, key.name)) + mark;
            command = add(command, key.name, key.value, about, Some("Keys of every run".to_owned()));
        }
    } else if method {
        let about = with_default("What is trained (see `list methods`)", Some(lab.default_method().into()));
        command = add(command, "tuning", "METHOD", about, None);
    }
    if method {
        let is_method = |owner: &&str| lab.find_method(owner).is_ok();
        let wanted = |key: &OwnKey| takes == Takes::Everything || key.owners.iter().any(is_method);
        for (name, key) in lab.own_keys().into_iter().filter(|(_, key)| wanted(key)) {
            let (value, about) = key.help.map_or(("VALUE", ""), |help| (help.value, help.about));
            let value = if key.defaults.iter().all(Value::is_boolean) { "BOOL" } else { value };
            let owners = key.owners.join(", ");
            let about = with_defaults(about, &key);
            command = add(command, &name, value, about, Some(format!("Keys of {owners}")));
        }
    }
    if takes != Takes::Method {
        for key in FILE_KEYS {
            command = add(command, key.name, key.value, key.about.to_owned(), Some("Files of your own".to_owned()));
        }
    }
    command
}

fn add(command: Command, key: &str, value: &str, about: String, heading: Option<String>) -> Command {
    let long = key.replace('_', "-");
    // A command's own option of that name stays what it is; files and `--set` reach the key all the same.
    if command.get_arguments().any(|argument| argument.get_long() == Some(&long)) {
        return command;
    }
    let mut argument = Arg::new(id(key)).long(long).value_name(value.to_owned()).help(about);
    argument = argument.allow_negative_numbers(true);
    if value == "BOOL" {
        argument = argument.num_args(0..=1).default_missing_value("true");
    }
    if let Some(heading) = heading {
        argument = argument.help_heading(heading);
    }
    command.arg(argument)
}

/// What a key decides, with its default, or the default of each owner where they differ.
fn with_defaults(about: &str, key: &OwnKey) -> String {
    let same = key.defaults.windows(2).all(|pair| pair[0] == pair[1]);
    if same || about.contains('[') {
        return with_default(about, key.defaults.first().filter(|default| !default.is_null()).cloned());
    }
    let each: Vec<String> =
        key.owners.iter().zip(&key.defaults).map(|(owner, default)| format!("{owner} {default}")).collect();
    format!("{about} [default: {}]", each.join(", "))
}

fn with_default(about: &str, default: Option<Value>) -> String {
    match default {
        Some(default)
            if !about.contains("[default") && !about.contains("[needed") && default != Value::Array(Vec::new()) =>
        {
            let text = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
            format!("{about} [default: {text}]").trim_start().to_owned()
        }
        _ => about.to_owned(),
    }
}

/// What stands where nothing is said.
fn usual(lab: &Lab, key: &str) -> Option<Value> {
    match key {
        "tuning" => Some(lab.default_method().into()),
        "profile" => Some("paper".into()),
        "head" => Some("cls".into()),
        "optimizer" => Some("adam".into()),
        "head_dropout" => Some("0".into()),
        _ => serde_json::to_value(TrainConfig::default()).ok()?.get(key).filter(|value| !value.is_null()).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("train", "task", true)]
    #[case("train", "backbone", true)]
    #[case("train", "k", true)]
    #[case("train", "lr", false)]
    #[case("config show", "task", false)]
    fn help_marks_what_is_needed(#[case] way: &str, #[case] flag: &str, #[case] marked: bool) {
        let mut command = command(&Lab::paper());
        let leaf = way.split(' ').fold(&mut command, |command, name| command.find_subcommand_mut(name).unwrap());
        let argument = leaf.get_arguments().find(|argument| argument.get_long() == Some(flag)).unwrap();
        let help = argument.get_help().unwrap().to_string();
        assert_eq!(help.contains("[needed]"), marked, "{help}");
    }

    #[test]
    fn the_command_line_is_sound() {
        command(&Lab::paper()).debug_assert();
    }

    /// Whatever a command reads from the environment must not stop a run.
    #[test]
    fn variables_of_commands_are_no_keys_of_runs() {
        fn variables(command: &Command) -> Vec<(String, String)> {
            let own = command.get_arguments().filter_map(|argument| argument.get_env());
            let own = own.map(|name| (name.to_string_lossy().into_owned(), "x".to_owned()));
            own.chain(command.get_subcommands().flat_map(variables)).collect()
        }
        let variables = variables(&Cli::command());
        assert!(variables.iter().any(|(name, _)| name == "ADAPTER_LAB_DEVICE"));
        assert!(Layers::new(&Lab::paper()).variables(variables).unwrap().is_empty());
    }
}
