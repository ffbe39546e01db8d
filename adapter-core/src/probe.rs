//! How far insertions are from doing nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use burn::{
    module::Module,
    nn::Linear,
    tensor::{FloatDType, Tensor},
};

use crate::{At, Insertion, Place, Projection};

/// Collects, place by place, how far insertions move what passes through them: ‖Δ‖/‖x‖ over all tokens of a batch.
///
/// ```
/// # use adapter_core::{Adapter, AdapterConfig, At, Init, Insertion, Place, Probe, Site};
/// # use burn::tensor::{Device, Tensor};
/// # let (device, place) = (Device::flex(), Place::new(3, Site::Attention));
/// # let adapter = AdapterConfig::new(8).init(place, 32, Init::new(0), &device).unwrap();
/// let probe = Probe::default();
/// let adapter = probe.around(adapter);
/// # let x = Tensor::<2>::ones([3, 32], &device);
/// adapter.forward(x.clone(), x, &At::new(place, &[0, 3]));
/// // A new adapter is near the identity.
/// assert!(probe.deviations()[&place] < 0.01);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Probe(Arc<Mutex<BTreeMap<Place, f64>>>);

impl Probe {
    /// The same insertion, watched.
    pub fn around<I: Insertion>(&self, insertion: I) -> Probed<I> {
        Probed { insertion, probe: self.clone() }
    }

    /// What was measured last at each place; places where nothing changed are left out.
    pub fn deviations(&self) -> BTreeMap<Place, f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn measure(&self, place: Place, before: Tensor<2>, after: Tensor<2>) {
        let norm = |x: Tensor<2>| {
            let rows = x.cast(FloatDType::F32).powf_scalar(2.0).sum_dim(1).into_data();
            rows.iter::<f32>().map(f64::from).sum::<f64>().sqrt()
        };
        let moved = norm(after - before.clone());
        if moved > 0.0 {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(place, moved / norm(before));
        }
    }
}

/// An insertion that a [`Probe`] watches; it computes what it would without.
#[derive(Module, Debug)]
pub struct Probed<I: Insertion> {
    insertion: I,
    #[module(skip)]
    probe: Probe,
}

impl<I: Insertion> Insertion for Probed<I> {
    fn forward(&self, output: Tensor<2>, input: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        let result = self.insertion.forward(output.clone(), input, at);
        self.probe.measure(at.place, output, result.clone());
        result
    }

    fn changes(&self, projection: Projection) -> bool {
        self.insertion.changes(projection)
    }

    fn project(&self, projection: Projection, linear: &Linear, x: Tensor<2>, at: &At<'_>) -> Tensor<2> {
        self.insertion.project(projection, linear, x, at)
    }
}
