//! Work for all cores.

use std::{
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Lets each core do its share: most of the time is spent on opening and parsing files.
pub(crate) fn shared_out<T: Sync, R: Send>(all: &[T], work: &(dyn Fn(&[T]) -> Vec<R> + Sync)) -> Vec<R> {
    let share = all.len().div_ceil(cores()).max(1);
    thread::scope(|scope| {
        let shares: Vec<_> = all.chunks(share).map(|share| scope.spawn(move || work(share))).collect();
        shares.into_iter().flat_map(|share| share.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Lets each core take one after the other: for work of which some takes much longer than the rest.
pub(crate) fn one_by_one<T: Sync, R: Send>(all: &[T], work: &(dyn Fn(&T) -> R + Sync)) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed)).take_while(|n| *n < all.len());
        numbers.map(|number| (number, work(&all[number]))).collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores().min(all.len())).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_work() {
        let all: Vec<usize> = (0..1000).collect();
        let doubled: Vec<usize> = all.iter().map(|number| 2 * number).collect();
        assert_eq!(one_by_one(&all, &|number| 2 * number), doubled);
        assert_eq!(shared_out(&all, &|part| part.iter().map(|number| 2 * number).collect()), doubled);
        assert!(one_by_one(&[], &|number: &usize| *number).is_empty());
    }
}
