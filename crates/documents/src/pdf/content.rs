//! Goes through the content of pages and takes down the text that it shows.

use std::{collections::HashMap, rc::Rc};

use memchr::memmem;

use super::{
    file::File,
    font::Font,
    layout::Layout,
    lexer::{Lexer, Token, is_space},
    matrix::Matrix,
    object::{Dict, Object, Stream},
    pages::Page,
    text_state::TextState,
};

/// Bytes of the content of one page.
const MAX_CONTENT: usize = 32 << 20;
/// Bytes of the content of one form. All forms that are in one another are held at once.
const MAX_FORM: usize = 4 << 20;
/// Forms within forms.
const MAX_FORMS: usize = 12;
/// States that are saved to be restored.
const MAX_SAVED: usize = 256;
/// Operands before one operator. Those in use have six at most; more come from content that is broken.
const MAX_OPERANDS: usize = 64;
/// Fonts that are kept for the next page, and names of fonts that are kept for the rest of this one.
const MAX_FONTS: usize = 64;
/// What looking for a font costs.
const LOOKING: usize = 128;
/// What showing a glyph costs.
const SHOWING: usize = 16;

pub(crate) struct Reader<'a, 'b> {
    file: &'b File<'a>,
    layout: Layout,
    /// By the number of the object.
    fonts: HashMap<u32, Rc<Font>>,
}

/// What names in some content mean.
struct Scope {
    resources: Rc<Dict>,
    fonts: HashMap<Vec<u8>, Option<Rc<Font>>>,
    forms: usize,
}

impl<'a, 'b> Reader<'a, 'b> {
    pub(crate) fn new(file: &'b File<'a>, text_bytes: usize) -> Self {
        Self { file, layout: Layout::new(text_bytes), fonts: HashMap::new() }
    }

    /// Whether there is no use in showing more.
    pub(crate) fn is_done(&self) -> bool {
        self.layout.is_full() || self.file.budget().is_spent()
    }

    pub(crate) fn into_text(self) -> String {
        self.layout.into_text()
    }

    pub(crate) fn read_page(&mut self, page: &Page) {
        let mut content = Vec::new();
        let streams = match self.file.lookup(&page.dict, b"Contents") {
            Object::Array(streams) => streams,
            one => vec![one],
        };
        for stream in streams {
            if let Some(stream) = self.file.resolve(stream).into_stream() {
                content.extend(self.file.decode(&stream, MAX_CONTENT.saturating_sub(content.len())));
                content.push(b'\n');
            }
            if self.is_done() {
                break;
            }
        }
        let mut scope = Scope { resources: page.resources.clone(), fonts: HashMap::new(), forms: 0 };
        self.read(&content, &mut scope, Matrix::IDENTITY);
        self.read_fields(page);
        self.layout.end_page();
    }

    /// What is filled in, and notes that are written onto the page: they have content of their own.
    fn read_fields(&mut self, page: &Page) {
        for annotation in self.file.lookup(&page.dict, b"Annots").into_array() {
            let Some(annotation) = self.file.resolve(annotation).into_dict().filter(|_| !self.is_done()) else {
                continue;
            };
            if !annotation.has_name(b"Subtype", b"Widget") && !annotation.has_name(b"Subtype", b"FreeText") {
                continue;
            }
            let looks = self.file.lookup(&annotation, b"AP").into_dict().unwrap_or_default();
            let look = match self.file.lookup(&looks, b"N") {
                Object::Dict(states) => match self.file.lookup(&annotation, b"AS") {
                    Object::Name(state) => self.file.lookup(&states, &state),
                    _ => continue,
                },
                look => look,
            };
            let [x, y, ..]: [f64; 4] = self.numbers(self.file.lookup(&annotation, b"Rect")).unwrap_or_default();
            if let Some(stream) = look.into_stream() {
                self.read_form(&stream, &page.resources, Matrix::moved_by(x, y), 0);
            }
        }
    }

    fn read_form(&mut self, form: &Stream, resources: &Rc<Dict>, outside: Matrix, forms: usize) {
        if forms >= MAX_FORMS {
            return;
        }
        let resources =
            self.file.lookup(&form.dict, b"Resources").into_dict().map_or_else(|| resources.clone(), Rc::new);
        let matrix = self.numbers(self.file.lookup(&form.dict, b"Matrix")).map_or(Matrix::IDENTITY, Matrix);
        let content = self.file.decode(form, MAX_FORM);
        self.read(&content, &mut Scope { resources, fonts: HashMap::new(), forms: forms + 1 }, matrix.then(outside));
    }

    fn numbers<const N: usize>(&self, object: Object) -> Option<[f64; N]> {
        let items = object.into_array().into_iter().take(N);
        let numbers: Vec<f64> = items.filter_map(|item| self.file.resolve(item).as_number()).collect();
        numbers.try_into().ok()
    }

    fn read(&mut self, content: &[u8], scope: &mut Scope, page: Matrix) {
        let mut lexer = Lexer::of_content(content, self.file.budget());
        let mut state = TextState::new(page);
        let mut saved = Vec::new();
        let mut operands: Vec<Object> = Vec::new();
        while let Some(token) = lexer.token() {
            match token {
                Token::Word(b"q") if saved.len() < MAX_SAVED => saved.push(state.clone()),
                Token::Word(b"Q") => state = saved.pop().unwrap_or(state),
                Token::Word(b"ID") => lexer.jump(end_of_image(content, lexer.position())),
                Token::Word(b"Do") => self.draw(operands.first(), scope, state.page),
                Token::Word(b"Tf") => {
                    state.font = operands.first().and_then(|name| self.font(name.as_name()?, scope));
                    state.size = number(&operands, 1).unwrap_or(state.size);
                }
                Token::Word(operator) if !matches!(operator, b"true" | b"false" | b"null") => {
                    self.apply(operator, &operands, &mut state);
                }
                token => {
                    let operand = lexer.object_from(token);
                    if operands.len() < MAX_OPERANDS {
                        operands.extend(operand);
                    }
                    continue;
                }
            }
            operands.clear();
            if self.layout.is_full() {
                return;
            }
        }
    }

    /// The operators of text, and of where it is.
    fn apply(&mut self, operator: &[u8], operands: &[Object], state: &mut TextState) {
        let first = number(operands, 0).unwrap_or_default();
        let second = number(operands, 1).unwrap_or_default();
        match operator {
            b"BT" => state.begin_text(),
            b"Tc" => state.character_spacing = first,
            b"Tw" => state.word_spacing = first,
            b"Tz" => state.scale = first / 100.0,
            b"TL" => state.leading = first,
            b"Ts" => state.rise = first,
            b"Td" => state.move_line(first, second),
            b"TD" => {
                state.leading = -second;
                state.move_line(first, second);
            }
            b"T*" => state.next_line(),
            b"Tm" | b"cm" => {
                let Ok(numbers) =
                    <[f64; 6]>::try_from(operands.iter().filter_map(Object::as_number).collect::<Vec<_>>())
                else {
                    return;
                };
                if operator == b"Tm" {
                    state.put_line(Matrix(numbers));
                } else {
                    state.page = Matrix(numbers).then(state.page);
                }
            }
            b"Tj" => self.show(operands.first(), state),
            b"'" => {
                state.next_line();
                self.show(operands.first(), state);
            }
            b"\"" => {
                (state.word_spacing, state.character_spacing) = (first, second);
                state.next_line();
                self.show(operands.get(2), state);
            }
            b"TJ" => {
                let Some(Object::Array(items)) = operands.first() else { return };
                for item in items {
                    match item {
                        Object::Number(thousandths) => state.kern(*thousandths),
                        text => self.show(Some(text), state),
                    }
                }
            }
            _ => {}
        }
    }

    fn show(&mut self, text: Option<&Object>, state: &mut TextState) {
        let Some(mut bytes) = text.and_then(Object::as_string) else { return };
        let Some(font) = state.font.clone() else { return };
        while let Some((glyph, rest)) = font.glyph(bytes) {
            let spot = state.place(&glyph, font.is_exact());
            self.layout.show(&glyph.text, spot);
            if self.layout.is_full() || !self.file.budget().pay(SHOWING) {
                return;
            }
            bytes = rest;
        }
    }

    /// Goes through a form. Images show no text.
    fn draw(&mut self, name: Option<&Object>, scope: &Scope, page: Matrix) {
        let Some(name) = name.and_then(Object::as_name) else { return };
        if let Object::Stream(form) = self.file.resolve(self.resource(scope, b"XObject", name))
            && form.dict.has_name(b"Subtype", b"Form")
        {
            self.read_form(&form, &scope.resources, page, scope.forms);
        }
    }

    fn font(&mut self, name: &[u8], scope: &mut Scope) -> Option<Rc<Font>> {
        if let Some(known) = scope.fonts.get(name) {
            return known.clone();
        }
        self.file.budget().pay(LOOKING);
        let font = self.load_font(self.resource(scope, b"Font", name));
        if scope.fonts.len() >= MAX_FONTS {
            scope.fonts.clear();
        }
        scope.fonts.insert(name.to_vec(), font.clone());
        font
    }

    fn load_font(&mut self, object: Object) -> Option<Rc<Font>> {
        let number = match object {
            Object::Reference(number) => Some(number),
            _ => None,
        };
        if let Some(font) = number.and_then(|number| self.fonts.get(&number)) {
            return Some(font.clone());
        }
        let dict = self.file.resolve(object).into_dict()?;
        let font = Rc::new(Font::load(self.file, &dict));
        if self.fonts.len() >= MAX_FONTS {
            self.fonts.clear();
        }
        if let Some(number) = number {
            self.fonts.insert(number, font.clone());
        }
        Some(font)
    }

    /// What a name means in some content. Only the entry is copied: a list of names can be long.
    fn resource(&self, scope: &Scope, kind: &[u8], name: &[u8]) -> Object {
        match scope.resources.get(kind) {
            Object::Dict(dict) => dict.get(name).clone(),
            Object::Reference(number) => {
                let dict = self.file.resolve(Object::Reference(*number)).into_dict();
                dict.map_or(Object::Null, |dict| dict.get(name).clone())
            }
            _ => Object::Null,
        }
    }
}

fn number(operands: &[Object], index: usize) -> Option<f64> {
    operands.get(index)?.as_number()
}

/// Where the content goes on after an image that lies in it: behind an `EI` that stands by itself.
fn end_of_image(content: &[u8], from: usize) -> usize {
    let rest = content.get(from..).unwrap_or_default();
    let ends = |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| rest.get(before));
        before.is_none_or(|byte| is_space(*byte)) && rest.get(at + 2).is_none_or(|byte| is_space(*byte))
    };
    memmem::find_iter(rest, b"EI").find(ends).map_or(content.len(), |at| from + at + 2)
}
