//! What a task's runs scored, by method, and whether that says anything.

use crate::{
    MethodRecord, paper,
    select::{Point, best_point},
    standing::{Measure, Standing, standing},
    thresholds,
};

/// Points of a task, by method.
pub(super) type Points<'a> = Vec<(&'a MethodRecord, Point<'a>)>;

/// The points of a method, whatever its size.
pub(super) fn of<'p, 'a>(points: &'p Points<'a>, name: &str) -> impl Iterator<Item = &'p Point<'a>> {
    points.iter().filter(move |(method, _)| method.name == name).map(|(_, point)| point)
}

/// The size or k of a method with the best mean validation score.
pub(super) fn best_of<'p, 'a>(points: &'p Points<'a>, name: &str) -> Option<&'p Point<'a>> {
    best_point(of(points, name))
}

/// The best point of a method at one size.
pub(super) fn sized<'p, 'a>(points: &'p Points<'a>, name: &str, size: Option<f64>) -> Option<&'p Point<'a>> {
    let own = points.iter().filter(|(method, _)| method.name == name && method.size == size);
    best_point(own.map(|(_, point)| point))
}

/// Sizes or ks of a method, in their order.
pub(super) fn sizes_of(points: &Points<'_>, name: &str) -> Vec<f64> {
    let mut sizes: Vec<f64> =
        points.iter().filter(|(method, _)| method.name == name).filter_map(|(method, _)| method.size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

/// How far a size is from 64, which stands for all where one is asked for: in doublings.
pub(super) fn from_usual(size: f64) -> f64 {
    (size.log2() - 6.0).abs()
}

/// Whether there are seeds enough to say anything.
pub(super) fn enough(seeds: usize) -> Result<(), String> {
    let few = seeds as f64 <= thresholds::SEEDS.limit;
    if few { Err("fewer than three seeds of both".to_owned()) } else { Ok(()) }
}

/// The point that must have learnt its task: full fine-tuning, or else the best adapters.
pub(super) fn reference<'p, 'a>(points: &'p Points<'a>) -> Option<&'p Point<'a>> {
    best_of(points, paper::FULL).or_else(|| best_of(points, paper::ADAPTERS))
}

/// Why a task says nothing, if so.
pub(super) fn learnt(point: &Point<'_>, measure: Measure) -> Result<(), String> {
    let label = &point.seeds[0].method().label;
    match standing(point, measure) {
        Standing::Clear | Standing::Ceiling => {
            enough(point.seeds.len()).map_err(|_| format!("fewer than three seeds of {label}"))
        }
        Standing::Floor => {
            let (own, trivial) = (measure.estimate(point).written(), measure.trivial(point.seeds[0]));
            let trivial = trivial.map_or(String::new(), |trivial| format!("'s {:.1}", 100.0 * trivial));
            Err(format!("{label} with {own} does not clearly beat the trivial answer{trivial}"))
        }
        Standing::Unknown => Err("the trivial answer's score is not recorded".to_owned()),
    }
}
