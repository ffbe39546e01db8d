//! Batches: which examples, in which order, and made ready while the network is busy.

use std::{
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

use adapter_core::mix;
use bert_backbone::{BatchError, BertConfig, PackedBatch};
use burn::tensor::Device;

use crate::{
    Tokenised,
    shuffle::{Purpose, permutation},
};

/// How an epoch's examples are put into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchConfig {
    /// Examples of a batch; the last one may have fewer.
    pub size: usize,
    /// Decides the order, together with the epoch.
    pub seed: u64,
    /// Sorts the examples of so many batches by length before they are divided, so that sequences of a batch are alike
    /// and attention wastes less; 0 or 1 does not. The order of the batches stays random.
    pub length_window: usize,
}

/// The batches of an epoch, as numbers of examples: a function of the seed and the epoch alone.
///
/// `lengths` has every example's number of tokens.
pub fn epoch_batches(lengths: &[usize], config: BatchConfig, epoch: u64) -> Vec<Vec<usize>> {
    let size = config.size.max(1);
    let order = permutation(lengths.len(), config.seed, Purpose::Epoch(epoch));
    let divide = |order: &[usize]| order.chunks(size).map(<[usize]>::to_vec).collect::<Vec<_>>();
    if config.length_window <= 1 {
        return divide(&order);
    }
    let mut batches = Vec::new();
    for (number, window) in order.chunks(size * config.length_window).enumerate() {
        let mut window = window.to_vec();
        // A stable sort: examples of one length keep their random order.
        window.sort_by_key(|&example| lengths[example]);
        let divided = divide(&window);
        let seed = mix(&[config.seed, number as u64]);
        batches.extend(permutation(divided.len(), seed, Purpose::Epoch(epoch)).into_iter().map(|i| divided[i].clone()));
    }
    batches
}

/// All examples in their own order, for evaluation.
pub fn in_order(examples: usize, size: usize) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..examples).collect();
    all.chunks(size.max(1)).map(<[usize]>::to_vec).collect()
}

/// Packed sequences with the numbers of their examples.
#[derive(Clone, Debug)]
pub struct NumberedBatch {
    /// Which examples.
    pub examples: Vec<usize>,
    /// Their tokens.
    pub packed: PackedBatch,
}

impl NumberedBatch {
    /// The same batch on another device.
    pub fn to_device(self, device: &Device) -> Self {
        Self { packed: self.packed.to_device(device), ..self }
    }
}

/// Makes batches on a thread of its own, a few ahead of whoever takes them.
pub struct Prefetch {
    ready: Receiver<Result<NumberedBatch, BatchError>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Prefetch {
    /// How many batches wait at most.
    const AHEAD: usize = 4;

    /// Starts packing `batches` of `tokens` for a network with `config`.
    pub fn start(
        tokens: std::sync::Arc<Tokenised>,
        batches: Vec<Vec<usize>>,
        config: BertConfig,
        device: Device,
    ) -> Self {
        let (send, ready) = sync_channel(Self::AHEAD);
        let thread = thread::spawn(move || {
            for examples in batches {
                let sequences: Vec<_> = examples.iter().map(|&example| tokens.sequence(example)).collect();
                let packed = PackedBatch::new(&sequences, &config, &device);
                // Nobody takes batches any more: done.
                if send.send(packed.map(|packed| NumberedBatch { examples, packed })).is_err() {
                    return;
                }
            }
        });
        Self { ready, thread: Some(thread) }
    }
}

impl Iterator for Prefetch {
    type Item = Result<NumberedBatch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.ready.recv().ok();
        if next.is_none()
            && let Some(Err(panic)) = self.thread.take().map(thread::JoinHandle::join)
        {
            // Not the end of the data: the thread failed.
            std::panic::resume_unwind(panic);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn config(length_window: usize) -> BatchConfig {
        BatchConfig { size: 8, seed: 5, length_window }
    }

    fn lengths() -> Vec<usize> {
        (0..203).map(|i| 1 + (i * 37) % 50).collect()
    }

    #[rstest]
    fn every_example_is_in_one_batch(#[values(0, 1, 4, 1000)] window: usize) {
        let batches = epoch_batches(&lengths(), config(window), 2);
        assert_eq!(batches.len(), 203usize.div_ceil(8));
        assert!(batches.iter().all(|batch| batch.len() <= 8));
        let mut all = batches.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..203));
    }

    #[rstest]
    fn order_depends_on_seed_and_epoch_alone(#[values(0, 4)] window: usize) {
        let batches = |seed, epoch| epoch_batches(&lengths(), BatchConfig { seed, ..config(window) }, epoch);
        assert_eq!(batches(1, 1), batches(1, 1));
        assert_ne!(batches(1, 1), batches(1, 2));
        assert_ne!(batches(1, 1), batches(2, 1));
    }

    /// Attention's work is the square of a batch's longest sequence for each of its sequences.
    #[test]
    fn grouping_by_length_saves_padding() {
        let lengths = lengths();
        let work = |window| -> usize {
            let batches = epoch_batches(&lengths, config(window), 0);
            let longest = |batch: &Vec<usize>| batch.iter().map(|&example| lengths[example]).max().unwrap();
            batches.iter().map(|batch| batch.len() * longest(batch).pow(2)).sum()
        };
        assert!(2 * work(100) < work(0), "{} against {}", work(100), work(0));
    }

    #[test]
    fn grouped_batches_do_not_come_by_length() {
        let lengths = lengths();
        let batches = epoch_batches(&lengths, config(100), 0);
        let longest: Vec<_> = batches.iter().map(|b| b.iter().map(|&e| lengths[e]).max().unwrap()).collect();
        assert!(!longest.is_sorted());
    }
}
