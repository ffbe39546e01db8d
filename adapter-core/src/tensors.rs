//! A module's tensors by name, in the spelling of checkpoints.

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId},
    tensor::{Gradients, Tensor, TensorData},
};

/// What is known of a tensor without touching its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Dotted path in the module, in the spelling of checkpoints: Burn's `gamma` and `beta` are `weight` and
    /// `bias`, and a field that had to dodge a Rust keyword (`self_`) has its plain name (`self`).
    pub name: String,
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
}

/// The float tensors of `module`, in its own order. Nothing is initialised.
pub fn tensors<M: Module>(module: &M) -> Vec<TensorInfo> {
    struct List {
        path: Path,
        tensors: Vec<TensorInfo>,
    }
    impl ModuleVisitor for List {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.exit();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.tensors.push(self.path.describe(param));
        }
    }
    let mut list = List { path: Path::default(), tensors: Vec::new() };
    module.visit(&mut list);
    list.tensors
}

/// Calls `f` with the name and the values (row-major) of every float tensor of `module` for which `wanted` says yes.
pub fn visit_tensors<M: Module>(module: &M, wanted: impl FnMut(&str) -> bool, f: impl FnMut(&str, &[usize], Vec<f32>)) {
    struct Visit<W, F> {
        path: Path,
        wanted: W,
        f: F,
    }
    impl<W: FnMut(&str) -> bool, F: FnMut(&str, &[usize], Vec<f32>)> ModuleVisitor for Visit<W, F> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.exit();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let name = self.path.name();
            if (self.wanted)(&name) {
                let shape = param.lazy_shape().to_vec();
                let values = param.val().into_data().iter::<f32>().collect();
                (self.f)(&name, &shape, values);
            }
        }
    }
    module.visit(&mut Visit { path: Path::default(), wanted, f });
}

/// Calls `f` with the name and the gradient (row-major) of every float tensor of `module` that got one.
pub fn visit_gradients<M: Module>(module: &M, gradients: &Gradients, f: impl FnMut(&str, Vec<f32>)) {
    struct Visit<'a, F> {
        path: Path,
        gradients: &'a Gradients,
        f: F,
    }
    impl<F: FnMut(&str, Vec<f32>)> ModuleVisitor for Visit<'_, F> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.exit();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = param.val().grad(self.gradients) {
                (self.f)(&self.path.name(), gradient.into_data().iter::<f32>().collect());
            }
        }
    }
    module.visit(&mut Visit { path: Path::default(), gradients, f });
}

/// Puts new values into the float tensors of `module`.
///
/// `f` gets a tensor's description and the name of the struct that holds it (such as `Linear`), and returns the
/// values (row-major) that take the old ones' place, or `None` to leave it. A tensor that gets values was never
/// initialised with others if it was still lazy.
///
/// # Panics
/// If `f` returns another number of values than the tensor has elements.
pub fn replace_tensors<M: Module>(module: M, f: impl FnMut(&TensorInfo, &str) -> Option<Vec<f32>>) -> M {
    struct Replace<F> {
        path: Path,
        f: F,
    }
    impl<F: FnMut(&TensorInfo, &str) -> Option<Vec<f32>>> ModuleMapper for Replace<F> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.exit();
        }
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let info = self.path.describe(&param);
            match (self.f)(&info, self.path.holder()) {
                None => param,
                Some(values) => {
                    let data = TensorData::new(values, info.shape);
                    let tensor = Tensor::from_data(data, &param.lazy_device());
                    param.transform_for_load(tensor, info.id)
                }
            }
        }
    }
    module.map(&mut Replace { path: Path::default(), f })
}

/// Sets which float tensors of `module` take part in training: those for whose names `trained` says yes.
pub(crate) fn set_trained<M: Module>(module: M, trained: impl FnMut(&str) -> bool) -> M {
    struct Set<F> {
        path: Path,
        trained: F,
    }
    impl<F: FnMut(&str) -> bool> ModuleMapper for Set<F> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.exit();
        }
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            // A lazy parameter shares this setting with its clones: make it real first.
            param.val();
            param.set_require_grad((self.trained)(&self.path.name()))
        }
    }
    module.map(&mut Set { path: Path::default(), trained })
}

/// A hash of the names, shapes and values of the float tensors of `module` for which `wanted` says yes: equal for
/// equal contents, whatever file they came from.
pub fn content_hash<M: Module>(module: &M, wanted: impl FnMut(&str) -> bool) -> String {
    let mut hasher = blake3::Hasher::new();
    visit_tensors(module, wanted, |name, shape, values| {
        hash_tensor(&mut hasher, name, shape, &values);
    });
    hasher.finalize().to_hex().to_string()
}

pub(crate) fn hash_tensor(hasher: &mut blake3::Hasher, name: &str, shape: &[usize], values: &[f32]) {
    hasher.update(&(name.len() as u64).to_le_bytes());
    hasher.update(name.as_bytes());
    hasher.update(&(shape.len() as u64).to_le_bytes());
    for &dimension in shape {
        hasher.update(&(dimension as u64).to_le_bytes());
    }
    // Little-endian on every platform this runs on with f32 as IEEE 754.
    hasher.update(bytemuck::cast_slice(values));
}

/// The way from the root of a module to the tensor being visited.
#[derive(Default)]
struct Path {
    steps: Vec<(String, String)>,
}

impl Path {
    fn enter(&mut self, name: &str, container: &str) {
        self.steps.push((name.to_owned(), container.to_owned()));
    }

    fn exit(&mut self) {
        self.steps.pop();
    }

    fn name(&self) -> String {
        let steps: Vec<&str> = self
            .steps
            .iter()
            .map(|(name, container)| match (name.as_str(), container.as_str()) {
                ("gamma", "Struct:LayerNorm" | "Struct:BatchNorm") => "weight",
                ("beta", "Struct:LayerNorm" | "Struct:BatchNorm") => "bias",
                (name, _) => name.trim_end_matches('_'),
            })
            .collect();
        steps.join(".")
    }

    /// The struct that holds the tensor, without its kind.
    fn holder(&self) -> &str {
        let container = self.steps.last().map_or("", |(_, container)| container);
        container.split(':').next_back().unwrap_or_default()
    }

    fn describe<const D: usize>(&self, param: &Param<Tensor<D>>) -> TensorInfo {
        TensorInfo { name: self.name(), id: param.id, shape: param.lazy_shape().to_vec() }
    }
}
