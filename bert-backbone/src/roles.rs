//! Which tensor of the network is what.

use adapter_core::{Kind, Part, Role};

/// The role of the tensor called `name` in a [`Bert`](crate::Bert) (without any prefix).
///
/// `pooler_is_read` says whether the task's head reads the pooler.
pub fn role(name: &str, pooler_is_read: bool) -> Role {
    let steps: Vec<&str> = name.split('.').collect();
    let part = match steps[..] {
        ["encoder", "layer", number, ..] => Part::Layer(number.parse().unwrap_or_default()),
        ["pooler", ..] => Part::Pooler { read_by_head: pooler_is_read },
        _ => Part::Embeddings,
    };
    let kind = match steps[..] {
        [.., "running_mean" | "running_var"] => Kind::Statistic,
        _ if steps.contains(&"insertion") => Kind::Inserted,
        [.., "LayerNorm", "weight"] => Kind::LayerNormScale,
        [.., "LayerNorm", "bias"] => Kind::LayerNormShift,
        [.., "bias"] => Kind::Bias,
        _ => Kind::Weight,
    };
    Role { part, kind }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("embeddings.word_embeddings.weight", Part::Embeddings, Kind::Weight)]
    #[case("embeddings.LayerNorm.bias", Part::Embeddings, Kind::LayerNormShift)]
    #[case("encoder.layer.11.attention.self.query.bias", Part::Layer(11), Kind::Bias)]
    #[case("encoder.layer.2.attention.output.LayerNorm.weight", Part::Layer(2), Kind::LayerNormScale)]
    #[case("encoder.layer.2.output.insertion.down.bias", Part::Layer(2), Kind::Inserted)]
    #[case("encoder.layer.2.output.insertion.layer_norm.weight", Part::Layer(2), Kind::Inserted)]
    #[case("encoder.layer.2.output.insertion.batch_norm.running_var", Part::Layer(2), Kind::Statistic)]
    #[case("pooler.dense.weight", Part::Pooler { read_by_head: true }, Kind::Weight)]
    fn names_tell_part_and_kind(#[case] name: &str, #[case] part: Part, #[case] kind: Kind) {
        assert_eq!(role(name, true), Role { part, kind });
    }
}
