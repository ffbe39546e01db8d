//! Runs as other programs see them, read by those programs themselves. `.ci/track` installs them and runs this.

mod common;

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use common::{
    place::{Place, answer, errors},
    process::signal_group,
};
use rstest::rstest;
use serde_json::{Value, json};

const ONE: &str = r#"
task = "file:task0.csv"
batch_size = 8
epochs = 60
tuning = "adapters"
adapter_size = 2
lr = 1e-2
seed = 0
"#;

fn python() -> Command {
    Command::new(std::env::var("TRACKERS_PYTHON").unwrap_or_else(|_| "python3".to_owned()))
}

/// What a script says that reads with Python.
fn script(name: &str, argument: &str) -> Value {
    let mut command = python();
    command.arg(format!("{}/tests/trackers/{name}", env!("CARGO_MANIFEST_DIR"))).arg(argument);
    answer(command)
}

/// Values of a tag, with their steps.
fn series(seen: &Value, tag: &str) -> Vec<(u64, f64)> {
    let points = seen["scalars"][tag].as_array().unwrap_or_else(|| panic!("no {tag}"));
    points.iter().map(|point| (point[0].as_u64().unwrap(), point[1].as_f64().unwrap())).collect()
}

fn same(seen: &[(u64, f64)], expected: &[(u64, f64)]) {
    assert_eq!(seen.len(), expected.len());
    for ((step, value), (own_step, own_value)) in seen.iter().zip(expected) {
        assert!(step == own_step && (value - own_value).abs() <= 1e-6 * own_value.abs().max(1.0), "{step}: {value}");
    }
}

/// The log of a run.
fn log(place: &Place, record: &Value) -> Vec<Value> {
    let path = place.path("runs").join(record["id"].as_str().unwrap()).join("steps.jsonl");
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Values of a log, with their steps.
fn logged(lines: &[Value], name: &str) -> Vec<(u64, f64)> {
    lines.iter().map(|line| (line["step"].as_u64().unwrap(), line[name].as_f64().unwrap())).collect()
}

/// What a program that followed a run says is what the run's log and its record say.
fn agrees(seen: &Value, place: &Place, record: &Value) {
    let lines = log(place, record);
    for name in ["loss", "rate"] {
        same(&series(seen, &format!("train/{name}")), &logged(&lines, name));
    }
    let measured: Vec<&Value> = lines.iter().filter(|line| line["deviations"].is_object()).collect();
    let (place_name, _) = measured[0]["deviations"].as_object().unwrap().iter().next().unwrap();
    let deviations: Vec<(u64, f64)> = measured
        .iter()
        .map(|line| (line["step"].as_u64().unwrap(), line["deviations"][place_name].as_f64().unwrap()))
        .collect();
    same(&series(seen, &format!("deviation/{place_name}")), &deviations);
    let evaluations: Vec<(u64, f64)> = record["epochs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|epoch| (epoch["steps"].as_u64().unwrap(), epoch["validation"]["accuracy"].as_f64().unwrap()))
        .collect();
    same(&series(seen, "validation/accuracy"), &evaluations);
    assert_eq!(seen["succeeded"], true);
}

/// Begins a run, and kills it after a while.
fn begin_and_kill(mut run: Command, after: Duration) {
    let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sleep(after);
    // It may be over already.
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
#[ignore = "needs Python's tensorboard: `.ci/track` installs it and runs this"]
fn tensorboard_sees_every_step_once_whatever_happened() {
    let place = Place::new(ONE);
    let options = ["--runs", "runs", "--checkpoint-every", "0.05", "--track", "tensorboard"];
    for _ in 0..3 {
        begin_and_kill(place.command(&options), Duration::from_millis(400));
    }
    let report = place.run(&options);
    let record = &report["runs"][0];
    let events = place.path("runs/tensorboard").join(record["id"].as_str().unwrap());
    let seen = script("tensorboard_says.py", events.to_str().unwrap());
    agrees(&seen, &place, record);
    same(&series(&seen, "train/tokens_per_second"), &logged(&log(&place, record), "tokens_per_second"));
    assert_eq!(
        (&seen["hparams"]["lr"], &seen["hparams"]["tuning"]),
        (&record["config"]["lr"], &record["config"]["tuning"])
    );
}

/// MLflow's tracking server, with its data in a folder.
struct Server {
    folder: PathBuf,
    port: u16,
    process: Child,
}

impl Server {
    fn start(place: &Place) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = place.path("server");
        fs::create_dir_all(&folder).unwrap();
        let process = Self::spawn(&folder, port);
        let server = Self { folder, port, process };
        server.wait();
        server
    }

    fn spawn(folder: &std::path::Path, port: u16) -> Child {
        let mut command = python();
        command
            .args(["-m", "mlflow", "server", "--host", "127.0.0.1", "--workers", "1", "--port"])
            .arg(port.to_string());
        command.args(["--backend-store-uri", "sqlite:///runs.db", "--artifacts-destination", "files"]);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Waits until it answers.
    fn wait(&self) {
        for _ in 0..600 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            sleep(Duration::from_millis(200));
        }
        panic!("MLflow's server does not start");
    }

    /// Kills it, with the processes that it started.
    fn kill(&mut self) {
        signal_group(self.process.id(), libc::SIGKILL);
        let _ = self.process.wait();
    }

    fn start_again(&mut self) {
        self.process = Self::spawn(&self.folder, self.port);
        self.wait();
    }

    fn uri(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What it says of a run.
    fn says(&self, id: &str) -> Value {
        script("mlflow_says.py", &format!("{}/{id}", self.uri()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
#[ignore = "needs Python's mlflow: `.ci/track` installs it and runs this"]
fn mlflow_has_all_of_a_run_whatever_happened_to_the_run_and_to_the_server() {
    let place = Place::new(ONE);
    let mut server = Server::start(&place);
    let uri = server.uri();
    let to_server = |mut command: Command| {
        command.env("MLFLOW_TRACKING_URI", &uri);
        command
    };
    let options = ["--runs", "runs", "--set", "epochs=400", "--checkpoint-every", "0.05", "--track", "mlflow"];
    let run = || to_server(place.command(&options));
    let sync = || to_server(place.program(&["runs", "sync", "--runs", "runs", "--json"]));
    for _ in 0..2 {
        begin_and_kill(run(), Duration::from_millis(900));
    }
    // The server is killed, the run goes on.
    let child = run().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    sleep(Duration::from_millis(900));
    server.kill();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("`adapter-lab runs sync` sends the rest"), "{}", errors(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let record = &report["runs"][0];
    let id = record["id"].as_str().unwrap();

    // Nobody is there; then somebody is, and gets everything, once.
    let failed = sync().output().unwrap();
    assert!(!failed.status.success() && errors(&failed).contains("does not answer"), "{}", errors(&failed));
    server.start_again();
    for (sent, already_there) in [(1, 0), (0, 1)] {
        let synced = answer(sync());
        assert_eq!((&synced["sent"], &synced["already_there"]), (&json!(sent), &json!(already_there)));
    }

    let seen = server.says(id);
    agrees(&seen, &place, record);
    assert_eq!(seen["hparams"]["tuning"], record["config"]["tuning"]);
    assert_eq!(seen["hparams"]["lr"], record["config"]["lr"].to_string());
    for file in ["record.json", "v.safetensors"] {
        let bytes = fs::read(place.path("runs").join(id).join(file)).unwrap();
        let bytes: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(seen["files"][file] == bytes, "{file}");
    }
}

#[test]
fn a_place_that_cannot_be_written_costs_the_tracking_and_not_the_run() {
    let place = Place::new(ONE);
    fs::create_dir_all(place.path("runs")).unwrap();
    fs::write(place.path("runs/tensorboard"), "in the way").unwrap();
    let options = ["--runs", "runs", "--set", "epochs=1", "--track", "tensorboard"];
    let output = place.command(&options).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("this run is not tracked"), "{}", errors(&output));
}

#[test]
fn a_server_that_is_not_there_costs_the_tracking_and_not_the_run() {
    let place = Place::new(ONE);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = ["--runs", "runs", "--set", "epochs=1", "--track", "mlflow"];
    let mut command = place.command(&options);
    let output = command.env("MLFLOW_TRACKING_URI", format!("http://127.0.0.1:{port}")).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert!(errors(&output).contains("`adapter-lab runs sync` sends the rest"), "{}", errors(&output));
}

#[rstest]
#[case::no_server("", "set MLFLOW_TRACKING_URI")]
#[case::a_folder("file:mlruns", "start one with `mlflow server`")]
fn a_server_that_cannot_be_is_refused_before_anything_runs(#[case] uri: &str, #[case] said: &str) {
    let place = Place::new(ONE);
    for arguments in
        [&["run", "own.toml", "--backbone", "tiny", "--track", "mlflow"][..], &["runs", "sync", "--runs", "."]]
    {
        let output = place.program(arguments).env("MLFLOW_TRACKING_URI", uri).output().unwrap();
        assert!(!output.status.success() && errors(&output).contains(said), "{}", errors(&output));
        assert!(!place.path("runs").exists());
    }
}
