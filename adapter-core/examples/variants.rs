//! How far each variant of §3.6 starts from the identity, by σ: `cargo run -p adapter-core --example variants`

use adapter_core::{Activation, AdapterConfig, At, Init, InnerNorm, Insertion, Interaction, Place, Placement, Site};
use burn::tensor::Device;

fn main() {
    let paper = AdapterConfig::default();
    let parallel = AdapterConfig { placement: Placement::Parallel, ..paper.clone() };
    let variants = [
        ("the paper's", paper.clone()),
        ("LayerNorm inside", AdapterConfig { norm: InnerNorm::Layer, ..paper.clone() }),
        ("BatchNorm inside", AdapterConfig { norm: InnerNorm::Batch, ..paper.clone() }),
        ("two layers", AdapterConfig { depth: 2, ..paper.clone() }),
        ("tanh", AdapterConfig { activation: Activation::Tanh, ..paper.clone() }),
        ("parallel", parallel.clone()),
        ("multiplicative", AdapterConfig { interaction: Interaction::Multiplicative, ..parallel }),
    ];
    let device = Device::flex();
    let place = Place::new(0, Site::Attention);
    let at = At::new(place, &[0, 16]);
    let random = |name: &str| Init::new(1).truncated_normal(name, [16, 128], 1.0, &device).val();
    let (output, input) = (random("output"), random("input"));

    println!("{:<18}{:>12}{:>12}{:>12}", "relative change", "σ = 1e-4", "σ = 1e-2", "σ = 1");
    for (name, config) in variants {
        print!("{name:<18}");
        for init_std in [1e-4, 1e-2, 1.0] {
            let config = AdapterConfig { init_std, ..config.clone() };
            let adapter = config.init(place, 128, Init::new(0), &device).expect("every place has an adapter");
            let change = adapter.forward(output.clone(), input.clone(), &at) - output.clone();
            let norm = |x: burn::tensor::Tensor<2>| x.powf_scalar(2.0).sum().sqrt().into_scalar::<f32>();
            print!("{:>12.2e}", norm(change) / norm(output.clone()));
        }
        println!();
    }
}
