//! Figures as pictures and as pages.

use std::sync::{Arc, OnceLock};

use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree, WriteOptions, fontdb::Database},
};

/// Pixels of a picture for one of the figure: sharp in print and when shown at half size.
const SCALE: f32 = 2.0;

/// A figure that could not be drawn. It does not happen with figures of this crate.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw: {0}")]
pub struct RenderError(String);

/// A parsed figure.
pub struct Drawing(Tree);

impl Drawing {
    /// Parses an SVG document. Every text is set in DejaVu Sans, which this program carries, wherever it runs.
    pub fn new(svg: &str) -> Result<Self, RenderError> {
        static FONTS: OnceLock<Arc<Database>> = OnceLock::new();
        let fonts = FONTS.get_or_init(|| {
            let mut fonts = Database::new();
            fonts.load_font_data(dejavu::sans::regular().to_vec());
            fonts.load_font_data(dejavu::sans::bold().to_vec());
            fonts.set_sans_serif_family("DejaVu Sans");
            Arc::new(fonts)
        });
        let options =
            Options { fontdb: Arc::clone(fonts), font_family: "DejaVu Sans".to_owned(), ..Options::default() };
        Tree::from_str(svg, &options).map(Self).map_err(|error| RenderError(error.to_string()))
    }

    /// As PNG.
    pub fn png(&self) -> Result<Vec<u8>, RenderError> {
        let size = self.0.size();
        let (width, height) = ((size.width() * SCALE) as u32, (size.height() * SCALE) as u32);
        let mut picture = Pixmap::new(width, height).ok_or_else(|| RenderError("the figure has no size".to_owned()))?;
        resvg::render(&self.0, Transform::from_scale(SCALE, SCALE), &mut picture.as_mut());
        picture.encode_png().map_err(|error| RenderError(error.to_string()))
    }

    /// As a page of PDF. Its texts are texts with the feature `pdf-text`, else outlines.
    pub fn pdf(&self) -> Result<Vec<u8>, RenderError> {
        let outlines;
        let tree = if cfg!(feature = "pdf-text") {
            &self.0
        } else {
            let flat = self.0.to_string(&WriteOptions { preserve_text: false, ..WriteOptions::default() });
            outlines = Self::new(&flat)?;
            &outlines.0
        };
        svg2pdf::to_pdf(tree, svg2pdf::ConversionOptions::default(), svg2pdf::PageOptions::default())
            .map_err(|error| RenderError(error.to_string()))
    }
}
