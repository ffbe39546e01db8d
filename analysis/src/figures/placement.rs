//! Fig. 2: where adapters stand in a layer, with the shapes of the network that was run.

use crate::{
    Store,
    axis::counted,
    chart::{Figure, Panel},
    diagram::{Block, Diagram},
    paper,
    setup::Run,
    svg::{ACCENT, FILL},
    table::grouped,
};

const TRAINED: &str = ACCENT;
const FROZEN: &str = FILL;
const WIDE: (f64, f64) = (190.0, 36.0);
const HEIGHT: f64 = 620.0;

/// Fig. 2 of the paper, drawn of a run with adapters as the paper has them; the run of size 64, or the nearest to it.
pub fn fig2(store: &Store) -> Option<Figure> {
    let plain = |run: &&Run| {
        let (method, network) = (run.method(), run.network);
        method.name == paper::ADAPTERS && method.variant.is_empty() && method.size.is_some() && network.layers > 0
    };
    let presets = ["fig6-spans", "fig4", "table1", "fig3", "table2"];
    let runs = presets.iter().map(|preset| store.preset_runs(preset)).find(|runs| runs.iter().any(plain))?;
    let distance = |run: &&Run| (run.method.size.unwrap_or(1.0) / 64.0).ln().abs();
    let run = runs.into_iter().filter(plain).min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    Some(figure(run))
}

fn figure(run: &Run) -> Figure {
    let network = run.network;
    let (d, m) = (network.hidden, run.method.size.unwrap_or_default() as usize);
    let adapter = 2 * m * d + d + m;
    let group = |name: &str| run.params.groups.get(name).copied().unwrap_or_default();
    let grouped = |number: usize| grouped(number as f64);
    let about = format!(
        "Left: a layer of {} ({}, width {d}, {}). An adapter stands after each sub-layer, before its residual. Green: \
         trained, {} adapters with {} parameters, LayerNorms with {} and a head with {}; {} in all, {:.2} % of the backbone. Grey: \
         frozen. Right: the adapter, 2md + d + m = {} parameters",
        run.backbone,
        counted(network.layers, "layer"),
        counted(network.heads, "head"),
        2 * network.layers,
        grouped(group("adapters")),
        grouped(group("layer_norms")),
        grouped(group("head")),
        grouped(run.params.trained),
        100.0 * run.params.trained as f64 / run.params.backbone.max(1) as f64,
        grouped(adapter),
    );
    let activation = run.value("activation").and_then(|name| name.as_str()).unwrap_or("activation");
    let layer = layer(d, m, network.intermediate, adapter);
    let panels = vec![Panel::Diagram(layer), Panel::Diagram(bottleneck(d, m, activation))];
    Figure { title: "Where adapters stand in a layer".to_owned(), about, keys: Vec::new(), panels }
}

fn block(y: f64, name: &str, detail: String, fill: &'static str) -> Block {
    let tip = if fill == TRAINED { "trained for the task" } else { "frozen" };
    Block { at: (200.0, y), size: WIDE, name: name.to_owned(), detail, fill, tip: format!("{name}: {tip}") }
}

/// A layer, from its input below to its output above.
fn layer(d: usize, m: usize, intermediate: usize, adapter: usize) -> Diagram {
    let matrix = |rows: usize, columns: usize| format!("{rows} × {columns}");
    let adapters = |y: f64| block(y, "Adapter", format!("m = {m}: {} parameters", grouped(adapter as f64)), TRAINED);
    let norm = |y: f64| block(y, "LayerNorm", format!("2 × {d}"), TRAINED);
    let boxes = vec![
        block(560.0, "Multi-head attention", format!("3 × {}", matrix(d, d)), FROZEN),
        block(504.0, "Projection", matrix(d, d), FROZEN),
        adapters(448.0),
        block(392.0, "+", String::new(), "#ffffff"),
        norm(336.0),
        block(272.0, "Feed-forward", format!("{} and {}", matrix(d, intermediate), matrix(intermediate, d)), FROZEN),
        adapters(216.0),
        block(160.0, "+", String::new(), "#ffffff"),
        norm(104.0),
    ];
    let mut arrows: Vec<Vec<(f64, f64)>> = boxes.windows(2).map(|pair| vec![pair[0].top(), pair[1].bottom()]).collect();
    let (left, right) = (boxes[0].bottom(), 330.0);
    arrows.push(vec![(left.0, HEIGHT - 6.0), left]);
    arrows.push(vec![boxes[8].top(), (left.0, 52.0)]);
    // Residuals, around each sub-layer with its adapter.
    for (from, sum) in [(HEIGHT - 22.0, &boxes[3]), (304.0, &boxes[7])] {
        let side = (sum.at.0 + WIDE.0 / 2.0, sum.at.1);
        arrows.push(vec![(200.0, from), (right, from), (right, side.1), side]);
    }
    let texts = vec![((200.0, 44.0), "to the next layer".to_owned())];
    Diagram { title: "A layer".to_owned(), size: (400.0, HEIGHT), boxes, arrows, texts }
}

/// An adapter, from its input below to its output above.
fn bottleneck(d: usize, m: usize, activation: &str) -> Diagram {
    let projection = |y: f64, name: &str, rows: usize, columns: usize| {
        block(y, name, format!("{rows} × {columns} and {columns} biases"), TRAINED)
    };
    let narrow = Block { size: (100.0, 36.0), ..block(326.0, activation, format!("width {m}"), "#ffffff") };
    let boxes = vec![
        projection(406.0, "Down-projection", d, m),
        narrow,
        projection(246.0, "Up-projection", m, d),
        block(166.0, "+", String::new(), "#ffffff"),
    ];
    let mut arrows: Vec<Vec<(f64, f64)>> = boxes.windows(2).map(|pair| vec![pair[0].top(), pair[1].bottom()]).collect();
    arrows.push(vec![(200.0, 480.0), boxes[0].bottom()]);
    arrows.push(vec![boxes[3].top(), (200.0, 110.0)]);
    arrows.push(vec![(200.0, 456.0), (330.0, 456.0), (330.0, 166.0), (200.0 + WIDE.0 / 2.0, 166.0)]);
    let texts = vec![((200.0, 498.0), format!("width {d}")), ((200.0, 102.0), format!("width {d}"))];
    Diagram { title: "An adapter".to_owned(), size: (400.0, HEIGHT), boxes, arrows, texts }
}
