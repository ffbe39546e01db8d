//! Where the labels of points stand: beside their points and, where possible, clear of lines, points and each other.

/// Height of a label's letters, as a part of the font's size.
const RISE: f64 = 0.73;

/// A rectangle: its left, upper, right and lower edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area(pub f64, pub f64, pub f64, pub f64);

impl Area {
    /// A square around a point.
    pub fn around((x, y): (f64, f64), reach: f64) -> Self {
        Self(x - reach, y - reach, x + reach, y + reach)
    }

    fn meets(&self, other: &Self) -> bool {
        self.0 < other.2 && other.0 < self.2 && self.1 < other.3 && other.1 < self.3
    }

    fn holds(&self, other: &Self) -> bool {
        self.0 <= other.0 && self.1 <= other.1 && other.2 <= self.2 && other.3 <= self.3
    }

    /// Whether a line from one point to another touches it.
    fn is_crossed(&self, [from, to]: [(f64, f64); 2]) -> bool {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        // How far along the line it is beyond the left, right, upper and lower edge.
        let edges = [(-dx, from.0 - self.0), (dx, self.2 - from.0), (-dy, from.1 - self.1), (dy, self.3 - from.1)];
        let (mut first, mut last) = (0.0_f64, 1.0_f64);
        for (towards, room) in edges {
            if towards == 0.0 {
                if room < 0.0 {
                    return false;
                }
            } else if towards < 0.0 {
                first = first.max(room / towards);
            } else {
                last = last.min(room / towards);
            }
        }
        first <= last
    }
}

/// What a plot shows already, as far as labels keep clear of it.
pub struct Labels {
    within: Area,
    lines: Vec<[(f64, f64); 2]>,
    points: Vec<Area>,
    labels: Vec<Area>,
}

impl Labels {
    /// For a plot that is empty so far.
    pub fn new(within: Area) -> Self {
        Self { within, lines: Vec::new(), points: Vec::new(), labels: Vec::new() }
    }

    /// Adds lines that labels keep clear of.
    pub fn add_path(&mut self, path: &[(f64, f64)]) {
        self.lines.extend(path.windows(2).map(|ends| [ends[0], ends[1]]));
    }

    /// Adds a point that labels keep clear of.
    pub fn add_point(&mut self, place: (f64, f64)) {
        self.points.push(Area::around(place, 4.5));
    }

    /// Where a label of this width begins, for a point at `place`: to the upper right, unless another corner is clearer.
    pub fn place(&mut self, (x, y): (f64, f64), width: f64, size: f64) -> (f64, f64) {
        let (right, left, above, below) = (x + 5.0, x - 5.0 - width, y - 6.5, y + 6.5 + RISE * size);
        let area = |(x, y): (f64, f64)| Area(x, y - RISE * size, x + width, y);
        let cost = |start: (f64, f64)| {
            let own = area(start);
            let count = |areas: &[Area]| areas.iter().filter(|other| own.meets(other)).count();
            let crossed = self.lines.iter().filter(|line| own.is_crossed(**line)).count();
            crossed + 2 * count(&self.points) + 3 * count(&self.labels) + 4 * usize::from(!self.within.holds(&own))
        };
        let corners = [(right, above), (left, above), (right, below), (left, below)];
        let start = corners.into_iter().min_by_key(|start| cost(*start)).unwrap_or(corners[0]);
        self.labels.push(area(start));
        start
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Area, Labels};

    #[rstest]
    #[case([(0.0, 0.0), (10.0, 10.0)], true)]
    #[case([(5.0, 0.0), (5.0, 10.0)], true)]
    #[case([(4.5, 4.5), (5.5, 5.5)], true)]
    #[case([(0.0, 0.0), (3.0, 3.0)], false)]
    #[case([(0.0, 3.0), (10.0, 3.0)], false)]
    #[case([(0.0, 8.0), (8.0, 20.0)], false)]
    fn a_line_crosses_an_area_or_not(#[case] line: [(f64, f64); 2], #[case] crosses: bool) {
        assert_eq!(Area(4.0, 4.0, 6.0, 6.0).is_crossed(line), crosses);
    }

    fn empty() -> Labels {
        Labels::new(Area(0.0, 0.0, 100.0, 100.0))
    }

    #[test]
    fn a_label_makes_way_for_a_line_a_point_a_label_and_the_edge() {
        assert_eq!(empty().place((50.0, 50.0), 10.0, 10.0), (55.0, 43.5), "to the upper right, where nothing is");
        let mut rising = empty();
        rising.add_path(&[(50.0, 50.0), (70.0, 30.0)]);
        assert_eq!(rising.place((50.0, 50.0), 10.0, 10.0), (35.0, 43.5));
        let mut full = empty();
        full.add_point((60.0, 40.0));
        assert_eq!(full.place((50.0, 50.0), 10.0, 10.0), (35.0, 43.5));
        let (x, y) = full.place((50.0, 50.0), 10.0, 10.0);
        assert!(x == 55.0 && (y - 63.8).abs() < 1e-9, "{x} {y}");
        assert_eq!(empty().place((98.0, 50.0), 10.0, 10.0).0, 83.0, "left of the edge");
    }
}
