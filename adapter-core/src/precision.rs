//! Half precision: what is computed in it, and what is not.

use burn::{
    module::{Module, Param},
    tensor::{FloatDType, Tensor},
};

use crate::tensors::{TensorInfo, TensorMapper, rewrite};

/// The same module with its float tensors in another precision. Those of normalisations stay as they are: they are summed
/// [in f32](in_f32).
pub fn cast<M: Module>(module: M, dtype: FloatDType) -> M {
    struct To(FloatDType);
    impl TensorMapper for To {
        fn map<const D: usize>(&mut self, tensor: TensorInfo, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            if tensor.is_of_normalisation() || precision(&param.val()) == self.0 {
                return param;
            }
            let trained = param.is_require_grad();
            param.map(|value| {
                if value.device().is_autodiff() {
                    // A cast that is tracked would be no parameter any more.
                    Tensor::from_inner(value.inner().cast(self.0)).set_require_grad(trained)
                } else {
                    value.cast(self.0)
                }
            })
        }
    }
    rewrite(module, &mut To(dtype))
}

/// The precision of a tensor.
pub fn precision<const D: usize>(x: &Tensor<D>) -> FloatDType {
    x.dtype().into()
}

/// `f` of `x`, computed in f32 whatever the precision of `x`, which the result has again.
pub fn in_f32<const D: usize>(x: Tensor<D>, f: impl FnOnce(Tensor<D>) -> Tensor<D>) -> Tensor<D> {
    match precision(&x) {
        FloatDType::F32 => f(x),
        half => f(x.cast(FloatDType::F32)).cast(half),
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use rstest::rstest;

    use super::*;
    use crate::{AdapterConfig, Init, InnerNorm, Place, Site, walk};

    #[rstest]
    fn everything_but_normalisations_is_cast(#[values(FloatDType::F16, FloatDType::BF16)] half: FloatDType) {
        struct Precisions(Vec<(String, FloatDType, bool)>);
        impl crate::TensorVisitor for Precisions {
            fn visit<const D: usize>(&mut self, tensor: TensorInfo, param: &Param<Tensor<D>>) {
                self.0.push((tensor.name, precision(&param.val()), param.is_require_grad()));
            }
        }
        let device = Device::flex().autodiff();
        let config = AdapterConfig { norm: InnerNorm::Layer, ..AdapterConfig::new(8) };
        let adapter = config.init(Place::new(0, Site::Attention), 16, Init::new(0), &device).unwrap();
        let mut seen = Precisions(Vec::new());
        walk(&cast(adapter, half), &mut seen);
        assert_eq!(seen.0.len(), 6);
        for (name, dtype, trained) in seen.0 {
            assert_eq!(dtype, if name.contains("norm") { FloatDType::F32 } else { half }, "{name}");
            assert!(trained, "{name}");
        }
    }

    #[test]
    fn sums_that_half_precision_cannot_hold_are_right_in_f32() {
        let x = Tensor::<1>::ones([4096], &Device::flex()).cast(FloatDType::F16) * 100.0;
        let mean = in_f32(x, |x| x.sum() / 4096.0);
        assert_eq!(precision(&mean), FloatDType::F16);
        assert_eq!(mean.into_scalar::<f32>(), 100.0);
    }
}
