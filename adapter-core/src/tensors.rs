//! A module's float tensors by name, in the spelling of checkpoints.
//!
//! [`walk`] and [`rewrite`] carry the names; everything else here is a short visitor or mapper for them.

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId},
    tensor::{Gradients, Tensor, TensorData},
};

/// Burn's normalisations.
const NORMS: [&str; 5] = ["LayerNorm", "BatchNorm", "RmsNorm", "GroupNorm", "InstanceNorm"];

fn is_norm(container: &str) -> bool {
    container.strip_prefix("Struct:").is_some_and(|holder| NORMS.contains(&holder))
}

/// What is known of a tensor without touching its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Dotted path in the module, in the spelling of checkpoints: Burn's `gamma` and `beta` are `weight` and
    /// `bias`, and a field that had to dodge a Rust keyword (`self_`) has its plain name (`self`).
    pub name: String,
    /// The struct that holds the tensor, such as `Linear`.
    pub holder: String,
    /// Burn's identity of the parameter.
    pub id: ParamId,
    /// The tensor's dimensions.
    pub shape: Vec<usize>,
}

impl TensorInfo {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the tensor belongs to a normalisation.
    pub fn is_of_normalisation(&self) -> bool {
        NORMS.contains(&self.holder.as_str())
    }
}

/// Looks at the tensors of a module.
pub trait TensorVisitor {
    /// Called for every float tensor, in the module's order. `param` may still be lazy.
    fn visit<const D: usize>(&mut self, tensor: TensorInfo, param: &Param<Tensor<D>>);
}

/// Changes the tensors of a module.
pub trait TensorMapper {
    /// Called for every float tensor, in the module's order; returns what takes its place. `param` may still be lazy.
    fn map<const D: usize>(&mut self, tensor: TensorInfo, param: Param<Tensor<D>>) -> Param<Tensor<D>>;
}

/// Shows every float tensor of `module` to `visitor`.
pub fn walk<M: Module>(module: &M, visitor: &mut impl TensorVisitor) {
    module.visit(&mut Named { path: Vec::new(), inner: visitor });
}

/// Passes every float tensor of `module` through `mapper`.
pub fn rewrite<M: Module>(module: M, mapper: &mut impl TensorMapper) -> M {
    module.map(&mut Named { path: Vec::new(), inner: mapper })
}

/// The float tensors of `module`, in its own order. Nothing is initialised.
pub fn tensors<M: Module>(module: &M) -> Vec<TensorInfo> {
    struct List(Vec<TensorInfo>);
    impl TensorVisitor for List {
        fn visit<const D: usize>(&mut self, tensor: TensorInfo, _: &Param<Tensor<D>>) {
            self.0.push(tensor);
        }
    }
    let mut list = List(Vec::new());
    walk(module, &mut list);
    list.0
}

/// Calls `f` with the values (row-major) of every float tensor of `module` whose name is `wanted`.
pub fn visit_values<M: Module>(module: &M, wanted: impl FnMut(&str) -> bool, f: impl FnMut(TensorInfo, Vec<f32>)) {
    struct Values<W, F>(W, F);
    impl<W: FnMut(&str) -> bool, F: FnMut(TensorInfo, Vec<f32>)> TensorVisitor for Values<W, F> {
        fn visit<const D: usize>(&mut self, tensor: TensorInfo, param: &Param<Tensor<D>>) {
            if (self.0)(&tensor.name) {
                (self.1)(tensor, param.val().into_data().iter::<f32>().collect());
            }
        }
    }
    walk(module, &mut Values(wanted, f));
}

/// Calls `f` with the gradient (row-major) of every float tensor of `module` that got one.
pub fn visit_gradients<M: Module>(module: &M, gradients: &Gradients, f: impl FnMut(TensorInfo, Vec<f32>)) {
    struct Visit<'a, F>(&'a Gradients, F);
    impl<F: FnMut(TensorInfo, Vec<f32>)> TensorVisitor for Visit<'_, F> {
        fn visit<const D: usize>(&mut self, tensor: TensorInfo, param: &Param<Tensor<D>>) {
            if let Some(gradient) = param.val().grad(self.0) {
                (self.1)(tensor, gradient.into_data().iter::<f32>().collect());
            }
        }
    }
    walk(module, &mut Visit(gradients, f));
}

/// Puts new values into the float tensors of `module`.
///
/// `f` returns the values (row-major) that take the old ones' place, or `None` to leave them. A lazy tensor that gets
/// values never computes its own.
///
/// # Panics
/// If `f` returns another number of values than the tensor has elements.
pub fn replace_values<M: Module>(module: M, f: impl FnMut(&TensorInfo) -> Option<Vec<f32>>) -> M {
    struct Replace<F>(F);
    impl<F: FnMut(&TensorInfo) -> Option<Vec<f32>>> TensorMapper for Replace<F> {
        fn map<const D: usize>(&mut self, tensor: TensorInfo, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            match (self.0)(&tensor) {
                None => param,
                Some(values) => {
                    let data = TensorData::new(values, tensor.shape);
                    let values = Tensor::from_data(data, &param.lazy_device());
                    param.transform_for_load(values, tensor.id)
                }
            }
        }
    }
    rewrite(module, &mut Replace(f))
}

/// Sets which float tensors of `module` take part in training: those whose names are `trained`.
pub(crate) fn set_trained<M: Module>(module: M, trained: impl FnMut(&str) -> bool) -> M {
    struct Set<F>(F);
    impl<F: FnMut(&str) -> bool> TensorMapper for Set<F> {
        fn map<const D: usize>(&mut self, tensor: TensorInfo, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            // A lazy parameter shares this setting with its clones: make it real first.
            param.val();
            param.set_require_grad((self.0)(&tensor.name))
        }
    }
    rewrite(module, &mut Set(trained))
}

/// A hash of the names, shapes and values of all float tensors of `module`, and of what else decides what it computes:
/// equal for equal contents, whatever file they came from.
pub fn content_hash<M: Module>(module: &M, settings: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(settings.as_bytes());
    visit_values(module, |_| true, |tensor, values| hash_tensor(&mut hasher, &tensor.name, &tensor.shape, &values));
    hasher.finalize().to_hex().to_string()
}

pub(crate) fn hash_tensor(hasher: &mut blake3::Hasher, name: &str, shape: &[usize], values: &[f32]) {
    let number = |n: usize| (n as u64).to_le_bytes();
    hasher.update(&number(name.len())).update(name.as_bytes()).update(&number(shape.len()));
    for &dimension in shape {
        hasher.update(&number(dimension));
    }
    hasher.update(bytemuck::cast_slice(values));
}

/// Keeps the way from the root of a module to the tensor at hand: names and what holds them.
struct Named<'a, T> {
    path: Vec<(String, String)>,
    inner: &'a mut T,
}

impl<T> Named<'_, T> {
    fn enter(&mut self, name: &str, container: &str) {
        self.path.push((name.to_owned(), container.to_owned()));
    }

    fn describe<const D: usize>(&self, param: &Param<Tensor<D>>) -> TensorInfo {
        let steps: Vec<&str> = self
            .path
            .iter()
            .map(|(name, container)| match name.as_str() {
                "gamma" if is_norm(container) => "weight",
                "beta" if is_norm(container) => "bias",
                name => name.trim_end_matches('_'),
            })
            .collect();
        let container = self.path.last().map_or("", |(_, container)| container);
        TensorInfo {
            name: steps.join("."),
            holder: container.trim_start_matches("Struct:").to_owned(),
            id: param.id,
            shape: param.lazy_shape().to_vec(),
        }
    }
}

impl<V: TensorVisitor> ModuleVisitor for Named<'_, V> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.enter(name, container);
    }
    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.inner.visit(self.describe(param), param);
    }
}

impl<M: TensorMapper> ModuleMapper for Named<'_, M> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.enter(name, container);
    }
    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        self.inner.map(self.describe(&param), param)
    }
}
