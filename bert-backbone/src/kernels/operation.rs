//! An operation with a backward pass of its own, and its way into Burn.
//!
//! Each fused operation is a type that implements [`Operation`] on slices; this file alone knows tensors and the autodiff
//! graph.

use std::fmt::Debug;

use burn::{
    backend::{
        Autodiff, Backend, Dispatch, Flex, TensorMetadata,
        autodiff::{
            checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
            grads::Gradients,
            ops::{Backward, Ops, OpsKind},
        },
        backend_extension,
        tensor::FloatTensor,
    },
    tensor::{DType, Shape, Tensor, TensorData},
};

use super::{
    add_norm::AddNorm, attention::Attention, bottleneck::Bottleneck, feed_forward::FeedForward, filters::FilterPeaks,
    is_flex,
};

/// A tensor of the CPU device.
type HostTensor = FloatTensor<Flex>;

/// An operation of `N` matrices (or rows) to one, computed in host memory.
pub trait Operation<const N: usize>: Clone + Debug + Send + 'static {
    /// What the forward pass keeps for the backward pass.
    type Kept: Clone + Debug + Send + 'static;

    /// Number of columns of the result.
    fn width(&self) -> usize;

    /// Which inputs the backward pass reads, if the gradients of the `wanted` inputs are.
    fn reads(&self, wanted: [bool; N]) -> [bool; N];

    /// The result, and what the backward pass will need for the gradients that are `wanted`; nothing, if none is.
    fn forward(&self, inputs: [&[f32]; N], wanted: [bool; N]) -> (Vec<f32>, Self::Kept);

    /// The gradients of the `wanted` inputs, from that of the result. Inputs that are not [read](Self::reads) are empty.
    fn backward(&self, inputs: [&[f32]; N], kept: &Self::Kept, gradient: &[f32], wanted: [bool; N]) -> [Grad; N];
}

/// The gradient of an input.
pub enum Grad {
    /// Not wanted.
    None,
    /// Its values.
    Values(Vec<f32>),
    /// The same as that of an earlier input.
    Same(usize),
}

impl Grad {
    /// The values of `f` if they are wanted.
    pub fn when(wanted: bool, f: impl FnOnce() -> Vec<f32>) -> Self {
        if wanted { Grad::Values(f()) } else { Grad::None }
    }
}

/// Whether the fused operations can work with `x`.
pub fn is_fast(x: &Tensor<2>) -> bool {
    is_flex(&x.device()) && x.dtype() == DType::F32
}

/// The fused operations as Burn's backends see them. The macro takes no lists of tensors, so each has its own method.
#[allow(clippy::too_many_arguments)]
#[backend_extension(Flex, Autodiff)]
pub trait FusedOps: Backend {
    fn attention(
        operation: Attention,
        x: FloatTensor<Self>,
        query: FloatTensor<Self>,
        query_bias: FloatTensor<Self>,
        key: FloatTensor<Self>,
        key_bias: FloatTensor<Self>,
        value: FloatTensor<Self>,
        value_bias: FloatTensor<Self>,
        output: FloatTensor<Self>,
        output_bias: FloatTensor<Self>,
        to_query: FloatTensor<Self>,
        to_key: FloatTensor<Self>,
        to_value: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    fn feed_forward(
        operation: FeedForward,
        x: FloatTensor<Self>,
        wide: FloatTensor<Self>,
        wide_bias: FloatTensor<Self>,
        narrow: FloatTensor<Self>,
        narrow_bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    fn bottleneck(
        operation: Bottleneck,
        x: FloatTensor<Self>,
        down: FloatTensor<Self>,
        down_bias: FloatTensor<Self>,
        up: FloatTensor<Self>,
        up_bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    fn add_norm(
        operation: AddNorm,
        x: FloatTensor<Self>,
        input: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    fn filter_peaks(operation: FilterPeaks, words: FloatTensor<Self>, filters: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// Implements [`FusedOps`] for the CPU device and for its gradients, and gives each operation a way in from tensors.
macro_rules! fused {
    ($($name:ident: $operation:ident, $n:literal, [$($input:ident),*];)*) => {
        impl FusedOps for Flex {
            $(fn $name(operation: $operation, $($input: HostTensor),*) -> HostTensor {
                compute(&operation, [$($input),*])
            })*
        }

        impl<C: CheckpointStrategy> FusedOps for Autodiff<Flex, C> {
            $(fn $name(operation: $operation, $($input: FloatTensor<Self>),*) -> FloatTensor<Self> {
                track::<_, C, $n>(operation, [$($input),*])
            })*
        }

        $(impl $operation {
            /// The operation on tensors of the CPU device.
            pub fn apply(self, inputs: [Input; $n]) -> Tensor<2> {
                let [$($input),*] = inputs;
                Tensor::from_dispatch(<Dispatch as FusedOps>::$name(self, $($input.0),*))
            }
        })*
    };
}

/// A tensor of any rank on its way into an operation.
pub struct Input(FloatTensor<Dispatch>);

impl<const D: usize> From<Tensor<D>> for Input {
    fn from(tensor: Tensor<D>) -> Self {
        Self(tensor.into_dispatch())
    }
}

fused! {
    attention: Attention, 12, [x, query, query_bias, key, key_bias, value, value_bias, output, output_bias, to_query, to_key, to_value];
    feed_forward: FeedForward, 5, [x, wide, wide_bias, narrow, narrow_bias];
    bottleneck: Bottleneck, 5, [x, down, down_bias, up, up_bias];
    add_norm: AddNorm, 4, [x, input, gamma, beta];
    filter_peaks: FilterPeaks, 2, [words, filters];
}

/// Without gradients.
fn compute<const N: usize>(operation: &impl Operation<N>, inputs: [HostTensor; N]) -> HostTensor {
    let inputs = inputs.map(contiguous);
    let (values, _) = operation.forward(inputs.each_ref().map(slice), [false; N]);
    matrix(values, operation.width())
}

/// With gradients for whatever is tracked.
fn track<O: Operation<N>, C: CheckpointStrategy, const N: usize>(
    operation: O,
    inputs: [FloatTensor<Autodiff<Flex, C>>; N],
) -> FloatTensor<Autodiff<Flex, C>> {
    let wanted = inputs.each_ref().map(|input| input.is_tracked());
    let mut guards = Vec::with_capacity(N);
    let inputs = inputs.map(|input| {
        let (tensor, guard) = input.into_parts();
        guards.push(guard);
        contiguous(tensor)
    });
    let (values, kept) = operation.forward(inputs.each_ref().map(slice), wanted);
    let output = matrix(values, operation.width());
    let shapes = inputs.each_ref().map(TensorMetadata::shape);
    let guards = guards.try_into().expect("one for each input");
    match Fused(operation.clone()).prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let mut read = operation.reads(wanted).into_iter();
            let inputs = inputs.map(|input| read.next().is_some_and(|read| read).then_some(input));
            prepared.finish(State { inputs, shapes, kept }, output)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    }
}

/// The backward step of an operation.
#[derive(Debug)]
struct Fused<O>(O);

#[derive(Clone, Debug)]
struct State<K, const N: usize> {
    inputs: [Option<HostTensor>; N],
    shapes: [Shape; N],
    kept: K,
}

impl<O: Operation<N>, const N: usize> Backward<Flex, N> for Fused<O> {
    type State = State<O::Kept, N>;

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = contiguous(gradients.consume::<Flex>(&ops.node));
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let inputs = ops.state.inputs.each_ref().map(|input| input.as_ref().map_or(&[][..], slice));
        let results = self.0.backward(inputs, &ops.state.kept, slice(&gradient), wanted);
        // So that what is added to it can be added in place.
        drop(gradient);
        let mut tensors: Vec<Option<HostTensor>> = Vec::with_capacity(N);
        for ((result, parent), shape) in results.into_iter().zip(ops.parents).zip(ops.state.shapes) {
            let tensor = match result {
                Grad::None => None,
                Grad::Values(values) => Some(HostTensor::from_data(TensorData::new(values, shape))),
                Grad::Same(earlier) => tensors[earlier].clone(),
            };
            if let (Some(tensor), Some(parent)) = (&tensor, parent) {
                gradients.register::<Flex>(parent.id, tensor.clone());
            }
            tensors.push(tensor);
        }
    }
}

fn contiguous(tensor: HostTensor) -> HostTensor {
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

fn slice(tensor: &HostTensor) -> &[f32] {
    tensor.as_slice().expect("a contiguous tensor of f32")
}

fn matrix(values: Vec<f32>, width: usize) -> HostTensor {
    let rows = values.len() / width;
    HostTensor::from_data(TensorData::new(values, [rows, width]))
}
