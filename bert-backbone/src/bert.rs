//! The network, top to bottom. Fields are named as the tensors of Hugging Face checkpoints.

#![allow(non_snake_case)] // `LayerNorm`, as in checkpoints

use std::borrow::Cow;

use adapter_core::{
    Activation, At, DropoutMask, DropoutSite, Init, Insertion, NetworkShape, NoInsertion, Place, Projection, Site,
    in_f32,
};
use burn::{
    module::{Module, Param},
    nn::{LayerNorm, LayerNormConfig, Linear},
    tensor::{Device, Tensor, activation},
};

use crate::{
    BertConfig, ConfigError, PackedBatch,
    kernels::{self, Rows},
};

/// BERT, with an `I` inserted behind the projection of every sub-layer.
///
/// A clone shares all weights. [`insert`](Self::insert) changes what is inserted without copying one.
#[derive(Module, Debug)]
pub struct Bert<I: Insertion = NoInsertion> {
    /// Tokens to vectors.
    pub embeddings: Embeddings,
    /// The layers.
    pub encoder: Encoder<I>,
    /// The pre-trained projection of the `[CLS]` token, where the checkpoint has one.
    pub pooler: Option<Pooler>,
}

impl Bert {
    /// A network with random weights (`initializer_range`), made when first used. The seed decides every value.
    ///
    /// # Errors
    /// If `config` describes no network.
    pub fn random(config: &BertConfig, init: Init, device: &Device) -> Result<Self, ConfigError> {
        config.check()?;
        let build = Build { config, activation: config.activation()?, init, device };
        Ok(Self {
            embeddings: Embeddings::new(&build),
            encoder: Encoder { layer: (0..config.num_hidden_layers).map(|layer| Layer::new(&build, layer)).collect() },
            pooler: Some(Pooler { dense: build.linear("pooler.dense", config.hidden_size, config.hidden_size) }),
        })
    }
}

impl<I: Insertion> Bert<I> {
    /// The last layer's output for every token.
    ///
    /// # Shapes
    /// - result: `[tokens, hidden]`
    pub fn forward(&self, batch: &PackedBatch) -> Tensor<2> {
        self.forward_from(0, self.embeddings.forward(batch), batch)
    }

    /// The output of the layers below `end` for every token: with 0 the embeddings, with all layers
    /// [`forward`](Self::forward).
    ///
    /// # Shapes
    /// - result: `[tokens, hidden]`
    pub fn forward_below(&self, end: usize, batch: &PackedBatch) -> Tensor<2> {
        let layers = self.encoder.layer.iter().take(end).enumerate();
        layers.fold(self.embeddings.forward(batch), |hidden, (number, layer)| layer.forward(hidden, batch, number))
    }

    /// The last layer's output, from what layer `first` is given.
    ///
    /// # Shapes
    /// - `hidden`, result: `[tokens, hidden]`
    pub fn forward_from(&self, first: usize, hidden: Tensor<2>, batch: &PackedBatch) -> Tensor<2> {
        let layers = self.encoder.layer.iter().enumerate().skip(first);
        layers.fold(hidden, |hidden, (number, layer)| layer.forward(hidden, batch, number))
    }

    /// The first row of each sequence, its `[CLS]` token, of [`forward_from`](Self::forward_from).
    ///
    /// The last layer computes no more than those rows where it can; the result is the same.
    ///
    /// # Shapes
    /// - `hidden`: `[tokens, hidden]`
    /// - result: `[sequences, hidden]`
    pub fn first_tokens_from(&self, first: usize, hidden: Tensor<2>, batch: &PackedBatch) -> Tensor<2> {
        let Some((top, below)) = self.encoder.layer.get(first..).and_then(<[_]>::split_last) else {
            return batch.first_tokens(hidden);
        };
        let layers = below.iter().zip(first..);
        let hidden = layers.fold(hidden, |hidden, (layer, number)| layer.forward(hidden, batch, number));
        top.forward_first_tokens(hidden, batch, first + below.len())
    }

    /// What methods may ask about it.
    pub fn shape(&self) -> NetworkShape {
        let hidden = self.embeddings.word_embeddings.weight.lazy_shape()[1];
        let wide = self.encoder.layer.first().map(|layer| layer.intermediate.dense.weight.lazy_shape()[1]);
        NetworkShape { layers: self.encoder.layer.len(), hidden, intermediate: wide.unwrap_or_default() }
    }

    /// The same network with another insertion at each place. No weight is copied.
    pub fn insert<J: Insertion>(self, mut insertion: impl FnMut(Place) -> J) -> Bert<J> {
        self.map_insertions(|place, _| insertion(place))
    }

    /// The same network with `f` of what was inserted at each place. No weight is copied.
    ///
    /// Removing adapters from a span of layers is `map_insertions` to `None` where the span contains the layer.
    pub fn map_insertions<J: Insertion>(self, mut f: impl FnMut(Place, I) -> J) -> Bert<J> {
        let layers = self.encoder.layer.into_iter().enumerate();
        let layer = layers.map(|(number, layer)| layer.map_insertions(number, &mut f)).collect();
        Bert { embeddings: self.embeddings, encoder: Encoder { layer }, pooler: self.pooler }
    }
}

/// Word, position and segment embeddings, summed and normalised.
#[derive(Module, Debug)]
pub struct Embeddings {
    /// `[vocab_size, hidden]`
    pub word_embeddings: Embedding,
    /// `[max_position_embeddings, hidden]`
    pub position_embeddings: Embedding,
    /// `[type_vocab_size, hidden]`
    pub token_type_embeddings: Embedding,
    /// Normalisation of the sum.
    pub LayerNorm: LayerNorm,
    epsilon: f64,
    dropout: f64,
}

impl Embeddings {
    fn new(build: &Build<'_>) -> Self {
        let config = build.config;
        Self {
            word_embeddings: build.embedding("embeddings.word_embeddings", config.vocab_size),
            position_embeddings: build.embedding("embeddings.position_embeddings", config.max_position_embeddings),
            token_type_embeddings: build.embedding("embeddings.token_type_embeddings", config.type_vocab_size),
            LayerNorm: build.layer_norm(),
            epsilon: config.layer_norm_eps,
            dropout: config.hidden_dropout_prob,
        }
    }

    /// # Shapes
    /// - result: `[tokens, hidden]`
    pub fn forward(&self, batch: &PackedBatch) -> Tensor<2> {
        let words = self.word_embeddings.weight.val().select(0, batch.input_ids.clone());
        let types = self.token_type_embeddings.weight.val().select(0, batch.token_type_ids.clone());
        let positions = self.position_embeddings.weight.val().select(0, batch.position_ids.clone());
        let normed = kernels::add_norm(words + types, positions, &self.LayerNorm, self.epsilon);
        kernels::dropout(normed, batch.dropout.map(|key| key.mask(DropoutSite::Embeddings, self.dropout)))
    }
}

/// A table of vectors.
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[rows, hidden]`
    pub weight: Param<Tensor<2>>,
}

/// The layers, bottom first.
#[derive(Module, Debug)]
pub struct Encoder<I: Insertion> {
    /// One after the other.
    pub layer: Vec<Layer<I>>,
}

/// A Transformer layer: attention and feed-forward sub-layers.
#[derive(Module, Debug)]
pub struct Layer<I: Insertion> {
    /// The attention sub-layer.
    pub attention: Attention<I>,
    /// The feed-forward sub-layer's first projection.
    pub intermediate: Intermediate,
    /// The feed-forward sub-layer's second projection and what follows.
    pub output: SubLayerOutput<I>,
}

impl Layer<NoInsertion> {
    fn new(build: &Build<'_>, layer: usize) -> Self {
        let (d, wide) = (build.config.hidden_size, build.config.intermediate_size);
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        Self {
            attention: Attention {
                self_: SelfAttention {
                    query: build.linear(&name("attention.self.query"), d, d),
                    key: build.linear(&name("attention.self.key"), d, d),
                    value: build.linear(&name("attention.self.value"), d, d),
                    heads: build.config.num_attention_heads,
                    dropout: build.config.attention_probs_dropout_prob,
                },
                output: SubLayerOutput::new(build, &name("attention.output.dense"), d),
            },
            intermediate: Intermediate {
                dense: build.linear(&name("intermediate.dense"), d, wide),
                activation: build.activation,
            },
            output: SubLayerOutput::new(build, &name("output.dense"), wide),
        }
    }
}

impl<I: Insertion> Layer<I> {
    /// Runs the layer as number `layer` of its network.
    ///
    /// # Shapes
    /// - `hidden`, result: `[tokens, hidden]`
    pub fn forward(&self, hidden: Tensor<2>, batch: &PackedBatch, layer: usize) -> Tensor<2> {
        self.rows(hidden.clone(), hidden, Rows::All(batch.tokens()), batch, layer)
    }

    /// The first row of each sequence of [`forward`](Self::forward), computing as few others as possible.
    ///
    /// # Shapes
    /// - `hidden`: `[tokens, hidden]`
    /// - result: `[sequences, hidden]`
    pub fn forward_first_tokens(&self, hidden: Tensor<2>, batch: &PackedBatch, layer: usize) -> Tensor<2> {
        let alone = self.attention.output.insertion.is_row_wise() && self.output.insertion.is_row_wise();
        if !alone {
            return batch.first_tokens(self.forward(hidden, batch, layer));
        }
        let first = batch.first_tokens(hidden.clone());
        self.rows(hidden, first, Rows::First(batch.shared_boundaries()), batch, layer)
    }

    /// Computes the given rows of the layer's output; `input` are those rows of `hidden`.
    fn rows(&self, hidden: Tensor<2>, input: Tensor<2>, rows: Rows, batch: &PackedBatch, layer: usize) -> Tensor<2> {
        let boundaries = match &rows {
            Rows::All(_) => batch.boundaries().to_vec(),
            Rows::First(_) => (0..=rows.len()).collect(),
        };
        let (attention_norm, output_norm) = (|x| self.attention.output.normalise(x), |x| self.output.normalise(x));
        let at = |site| At::new(Place::new(layer, site), &boundaries).with_dropout(batch.dropout);
        let in_attention = at(Site::Attention).with_layer_norm(&attention_norm);
        let in_feed_forward = at(Site::FeedForward).with_layer_norm(&output_norm);
        let mixed = self.attention.forward(hidden, rows.clone(), batch, &in_attention);
        let attended = self.attention.output.forward(mixed, input, &in_attention);
        let computed = self.feed_forward(attended.clone(), rows, &in_feed_forward);
        self.output.forward(computed, attended, &in_feed_forward)
    }

    /// The feed-forward sub-layer up to its dropout.
    pub(crate) fn feed_forward(&self, x: Tensor<2>, rows: Rows, at: &At<'_>) -> Tensor<2> {
        let (wide, narrow) = (&self.intermediate.dense, &self.output.dense);
        let activation = self.intermediate.activation;
        let dropout = self.output.mask(at);
        if kernels::is_fast(&x) && kernels::knows(activation) {
            let own = |projection, linear| self.output.as_linear(projection, linear);
            if let (Some(wide), Some(narrow)) = (own(Projection::Intermediate, wide), own(Projection::Output, narrow)) {
                return kernels::feed_forward(x, &wide, activation, &narrow, rows, dropout);
            }
        }
        let inner = activation.forward(self.output.project(Projection::Intermediate, wide, x, at));
        rows.dropout(self.output.project(Projection::Output, narrow, inner, at), dropout)
    }

    fn map_insertions<J: Insertion>(self, layer: usize, f: &mut impl FnMut(Place, I) -> J) -> Layer<J> {
        Layer {
            attention: Attention {
                self_: self.attention.self_,
                output: self.attention.output.map_insertion(|i| f(Place::new(layer, Site::Attention), i)),
            },
            intermediate: self.intermediate,
            output: self.output.map_insertion(|i| f(Place::new(layer, Site::FeedForward), i)),
        }
    }
}

/// The attention sub-layer.
#[derive(Module, Debug)]
pub struct Attention<I: Insertion> {
    /// Attention of the tokens of a sequence to each other.
    pub self_: SelfAttention,
    /// The output projection and what follows.
    pub output: SubLayerOutput<I>,
}

impl<I: Insertion> Attention<I> {
    /// The sub-layer up to its dropout.
    ///
    /// # Shapes
    /// - `hidden`: `[tokens, hidden]`
    /// - result: `[rows, hidden]`
    pub(crate) fn forward(&self, hidden: Tensor<2>, rows: Rows, batch: &PackedBatch, at: &At<'_>) -> Tensor<2> {
        let fast = kernels::is_fast(&hidden).then(|| self.fast(&hidden, &rows, batch, at)).flatten();
        fast.unwrap_or_else(|| self.composed(hidden, rows, batch, at))
    }

    /// The same in one operation; `None` if the insertion changes a projection in a way that has no place there.
    fn fast(&self, hidden: &Tensor<2>, rows: &Rows, batch: &PackedBatch, at: &At<'_>) -> Option<Tensor<2>> {
        let SelfAttention { query, key, value, heads, .. } = &self.self_;
        let mut added = [const { None }; 3];
        let asking = [(Projection::Query, query), (Projection::Key, key), (Projection::Value, value)];
        let mut linears = asking.map(|(projection, linear)| self.output.as_linear(projection, linear));
        for ((projection, linear), (own, added)) in asking.into_iter().zip(linears.iter_mut().zip(&mut added)) {
            if own.is_none() {
                let first_only = projection == Projection::Query && matches!(rows, Rows::First(_));
                let x = if first_only { batch.first_tokens(hidden.clone()) } else { hidden.clone() };
                *added = Some(self.output.insertion.adds(projection, x, at)?);
                *own = Some(Cow::Borrowed(linear));
            }
        }
        let [Some(query), Some(key), Some(value)] = &linears else { return None };
        let output = self.output.as_linear(Projection::AttentionOutput, &self.output.dense)?;
        let dropout = [self.self_.mask(at), self.output.mask(at)];
        let projections = [&**query, &**key, &**value, &*output];
        Some(kernels::attention(hidden.clone(), projections, added, *heads, batch, rows, dropout))
    }

    /// The same, on any device and with any change to the projections.
    pub(crate) fn composed(&self, hidden: Tensor<2>, rows: Rows, batch: &PackedBatch, at: &At<'_>) -> Tensor<2> {
        let project = |projection, linear: &Linear, x| self.output.project(projection, linear, x, at);
        let mixed = self.self_.forward(hidden, &rows, batch, at, &project);
        rows.dropout(project(Projection::AttentionOutput, &self.output.dense, mixed), self.output.mask(at))
    }
}

/// Multi-head self-attention without its output projection.
#[derive(Module, Debug)]
pub struct SelfAttention {
    /// `[hidden, hidden]`
    pub query: Linear,
    /// `[hidden, hidden]`
    pub key: Linear,
    /// `[hidden, hidden]`
    pub value: Linear,
    heads: usize,
    dropout: f64,
}

impl SelfAttention {
    /// What the tokens of `rows` take from all tokens of their sequences; `project` computes the projections.
    ///
    /// # Shapes
    /// - `hidden`: `[tokens, hidden]`
    /// - result: `[rows, hidden]`
    fn forward(
        &self,
        hidden: Tensor<2>,
        rows: &Rows,
        batch: &PackedBatch,
        at: &At<'_>,
        project: &dyn Fn(Projection, &Linear, Tensor<2>) -> Tensor<2>,
    ) -> Tensor<2> {
        let key = batch.unpack(project(Projection::Key, &self.key, hidden.clone()), self.heads);
        let value = batch.unpack(project(Projection::Value, &self.value, hidden.clone()), self.heads);
        let ([sequences, heads, longest, width], mask) = (key.dims(), self.mask(at));
        let scaled = |asking| project(Projection::Query, &self.query, asking).mul_scalar(1.0 / (width as f64).sqrt());
        let probabilities = |query: Tensor<4>| {
            in_f32(query.matmul(key.swap_dims(2, 3)), |scores| activation::softmax(batch.mask(scores), 3))
        };
        match rows {
            Rows::All(_) => {
                let probabilities = probabilities(batch.unpack(scaled(hidden), heads));
                batch.pack(kernels::dropout(probabilities, mask).matmul(value))
            }
            Rows::First(_) => {
                let query = scaled(batch.first_tokens(hidden)).reshape([sequences, heads, 1, width]);
                // Numbered as the first rows of all probabilities, `[sequences, heads, longest, longest]`.
                let starts: Vec<u32> = (0..sequences * heads).map(|head| (head * longest * longest) as u32).collect();
                let rows = probabilities(query).reshape([sequences * heads, longest]);
                let rows = kernels::dropout_rows(rows, &starts, mask).reshape([sequences, heads, 1, longest]);
                rows.matmul(value).reshape([sequences, heads * width])
            }
        }
    }

    fn mask(&self, at: &At<'_>) -> Option<DropoutMask> {
        at.dropout.map(|key| key.mask(DropoutSite::AttentionProbabilities(at.place.layer), self.dropout))
    }
}

/// The feed-forward sub-layer's first projection and non-linearity.
#[derive(Module, Debug)]
pub struct Intermediate {
    /// `[hidden, intermediate]`
    pub dense: Linear,
    #[module(skip)]
    activation: Activation,
}

/// The end of a sub-layer: projection, dropout, insertion, residual and normalisation.
#[derive(Module, Debug)]
pub struct SubLayerOutput<I: Insertion> {
    /// The projection back to the network's width.
    pub dense: Linear,
    /// Normalisation of the sum.
    pub LayerNorm: LayerNorm,
    /// What is inserted here.
    pub insertion: I,
    epsilon: f64,
    dropout: f64,
}

impl SubLayerOutput<NoInsertion> {
    fn new(build: &Build<'_>, name: &str, width: usize) -> Self {
        Self {
            dense: build.linear(name, width, build.config.hidden_size),
            LayerNorm: build.layer_norm(),
            insertion: NoInsertion,
            epsilon: build.config.layer_norm_eps,
            dropout: build.config.hidden_dropout_prob,
        }
    }
}

impl<I: Insertion> SubLayerOutput<I> {
    /// Insertion, residual and normalisation.
    ///
    /// # Shapes
    /// - `output`: `[rows, hidden]`, what the sub-layer's projection and dropout made of `input`
    /// - `input`: `[rows, hidden]`, what the sub-layer was given
    /// - result: `[rows, hidden]`
    pub fn forward(&self, output: Tensor<2>, input: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        let layer_norm = |x| self.normalise(x);
        let output = kernels::insert(&self.insertion, output, input.clone(), &at.with_layer_norm(&layer_norm));
        kernels::add_norm(output, input, &self.LayerNorm, self.epsilon)
    }

    /// The LayerNorm alone.
    fn normalise(&self, x: Tensor<2>) -> Tensor<2> {
        in_f32(x, |x| self.LayerNorm.forward(x))
    }

    /// A projection of the sub-layer as a linear layer; `None` if the insertion makes something else of it.
    fn as_linear<'a>(&self, projection: Projection, linear: &'a Linear) -> Option<Cow<'a, Linear>> {
        match self.insertion.changes(projection) {
            true => self.insertion.reweighted(projection, linear).map(Cow::Owned),
            false => Some(Cow::Borrowed(linear)),
        }
    }

    /// A projection of the sub-layer, as the insertion changes it.
    fn project(&self, projection: Projection, linear: &Linear, x: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        if self.insertion.changes(projection) {
            self.insertion.project(projection, linear, x, at)
        } else {
            linear.forward(x)
        }
    }

    fn mask(&self, at: &At<'_>) -> Option<DropoutMask> {
        let Place { layer, site } = at.place;
        at.dropout.map(|key| key.mask(DropoutSite::SubLayer(layer, site), self.dropout))
    }

    fn map_insertion<J: Insertion>(self, f: impl FnOnce(I) -> J) -> SubLayerOutput<J> {
        SubLayerOutput {
            dense: self.dense,
            LayerNorm: self.LayerNorm,
            insertion: f(self.insertion),
            epsilon: self.epsilon,
            dropout: self.dropout,
        }
    }
}

/// The pre-trained projection of the `[CLS]` token, with tanh.
#[derive(Module, Debug)]
pub struct Pooler {
    /// `[hidden, hidden]`
    pub dense: Linear,
}

impl Pooler {
    /// # Shapes
    /// - `first_tokens`, result: `[sequences, hidden]`
    pub fn forward(&self, first_tokens: Tensor<2>) -> Tensor<2> {
        activation::tanh(self.dense.forward(first_tokens))
    }
}

/// What building a random network needs everywhere.
pub(crate) struct Build<'a> {
    pub config: &'a BertConfig,
    pub activation: Activation,
    pub init: Init,
    pub device: &'a Device,
}

impl Build<'_> {
    pub fn linear(&self, name: &str, d_input: usize, d_output: usize) -> Linear {
        let std = self.config.initializer_range;
        let name = format!("{name}.weight");
        Linear {
            weight: self.init.truncated_normal(name, [d_input, d_output], std, self.device),
            bias: Some(self.init.constant(0.0, [d_output], self.device)),
        }
    }

    pub fn layer_norm(&self) -> LayerNorm {
        LayerNormConfig::new(self.config.hidden_size).with_epsilon(self.config.layer_norm_eps).init(self.device)
    }

    fn embedding(&self, name: &str, rows: usize) -> Embedding {
        let shape = [rows, self.config.hidden_size];
        let std = self.config.initializer_range;
        let name = format!("{name}.weight");
        Embedding { weight: self.init.truncated_normal(name, shape, std, self.device) }
    }
}
