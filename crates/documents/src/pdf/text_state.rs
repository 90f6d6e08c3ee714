//! What a page has said so far of how text is shown.

use std::rc::Rc;

use super::{
    font::{Font, Glyph},
    layout::Spot,
    matrix::Matrix,
};

/// The part of the graphics state that text depends on, with the matrices of the text object.
#[derive(Clone)]
pub(crate) struct TextState {
    pub(crate) font: Option<Rc<Font>>,
    pub(crate) size: f64,
    pub(crate) character_spacing: f64,
    pub(crate) word_spacing: f64,
    /// Horizontal scaling; 1 is none.
    pub(crate) scale: f64,
    pub(crate) leading: f64,
    pub(crate) rise: f64,
    /// From the page's content to the page.
    pub(crate) page: Matrix,
    /// From text to the page's content, where the next glyph goes and where the line began.
    pub(crate) here: Matrix,
    pub(crate) line: Matrix,
}

impl TextState {
    pub(crate) fn new(page: Matrix) -> Self {
        Self {
            font: None,
            size: 1.0,
            character_spacing: 0.0,
            word_spacing: 0.0,
            scale: 1.0,
            leading: 0.0,
            rise: 0.0,
            page,
            here: Matrix::IDENTITY,
            line: Matrix::IDENTITY,
        }
    }

    pub(crate) fn begin_text(&mut self) {
        self.put_line(Matrix::IDENTITY);
    }

    pub(crate) fn put_line(&mut self, line: Matrix) {
        self.line = line;
        self.here = line;
    }

    pub(crate) fn move_line(&mut self, x: f64, y: f64) {
        self.put_line(Matrix::moved_by(x, y).then(self.line));
    }

    pub(crate) fn next_line(&mut self) {
        self.move_line(0.0, -self.leading);
    }

    /// Moves by thousandths of the font's size, back if the number is positive.
    pub(crate) fn kern(&mut self, thousandths: f64) {
        self.advance(-thousandths * 0.001 * self.size * self.scale);
    }

    /// Where the glyph is. What comes next goes behind it.
    pub(crate) fn place(&mut self, glyph: &Glyph, exact: bool) -> Spot {
        let spacing = if glyph.is_word_space { self.word_spacing } else { 0.0 };
        let width = (glyph.width * self.size + self.character_spacing + spacing) * self.scale;
        let to_page = self.here.then(self.page);
        let begin = to_page.apply(0.0, self.rise);
        let end = to_page.apply(width, self.rise);
        let [a, b, c, d, _, _] = to_page.0;
        let along = a.hypot(b);
        let direction = if along > 0.0 { (a / along, b / along) } else { (1.0, 0.0) };
        self.advance(width);
        Spot { begin, end, direction, size: self.size.abs() * c.hypot(d), exact }
    }

    fn advance(&mut self, x: f64) {
        self.here = Matrix::moved_by(x, 0.0).then(self.here);
    }
}
