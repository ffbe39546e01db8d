//! Which tensor of the network is what.

use adapter_core::{Kind, Part, Role, TensorInfo};

/// The role of a tensor of a [`Bert`](crate::Bert), called `name` there (without any prefix).
///
/// `pooler_is_read` says whether the task's head reads the pooler.
pub fn role(name: &str, tensor: &TensorInfo, pooler_is_read: bool) -> Role {
    let steps: Vec<&str> = name.split('.').collect();
    let part = match steps[..] {
        ["encoder", "layer", number, ..] => Part::Layer(number.parse().unwrap_or_default()),
        ["pooler", ..] => Part::Pooler { read_by_head: pooler_is_read },
        _ => Part::Embeddings,
    };
    Role { part, kind: Kind::of(tensor), inserted: steps.contains(&"insertion") }
}

#[cfg(test)]
mod tests {
    use adapter_core::{AdapterConfig, Init, InnerNorm, tensors};
    use burn::tensor::Device;

    use super::*;
    use crate::{Bert, BertConfig};

    #[test]
    fn names_and_holders_tell_part_and_kind() {
        let (config, device, init) = (BertConfig::new(32, 3, 2), Device::flex(), Init::new(0));
        let adapter = AdapterConfig { norm: InnerNorm::Batch, ..AdapterConfig::new(4) };
        let bert = Bert::random(&config, init, &device).unwrap();
        let bert = bert.insert(|place| adapter.init(place, 32, init, &device));
        let roles: Vec<(String, Role)> =
            tensors(&bert).iter().map(|t| (t.name.clone(), role(&t.name, t, true))).collect();
        for (name, part, kind, inserted) in [
            ("embeddings.word_embeddings.weight", Part::Embeddings, Kind::Weight, false),
            ("embeddings.LayerNorm.bias", Part::Embeddings, Kind::NormShift, false),
            ("encoder.layer.1.attention.self.query.bias", Part::Layer(1), Kind::Bias, false),
            ("encoder.layer.2.attention.output.LayerNorm.weight", Part::Layer(2), Kind::NormScale, false),
            ("encoder.layer.2.output.insertion.down.bias", Part::Layer(2), Kind::Bias, true),
            ("encoder.layer.2.output.insertion.batch_norm.weight", Part::Layer(2), Kind::NormScale, true),
            ("encoder.layer.2.output.insertion.batch_norm.running_var", Part::Layer(2), Kind::Statistic, true),
            ("pooler.dense.weight", Part::Pooler { read_by_head: true }, Kind::Weight, false),
        ] {
            let found = roles.iter().find(|(known, _)| known == name).map(|(_, role)| *role);
            assert_eq!(found, Some(Role { part, kind, inserted }), "{name}");
        }
    }
}
