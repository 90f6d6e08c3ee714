//! Puts PDFs together, object by object, without the table that nobody here reads.

/// A PDF in the making.
pub(crate) struct Builder(Vec<u8>);

impl Builder {
    pub(crate) fn new() -> Self {
        Self(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec())
    }

    pub(crate) fn object(mut self, number: u32, content: &(impl AsRef<[u8]> + ?Sized)) -> Self {
        self.0.extend(format!("{number} 0 obj\n").bytes());
        self.0.extend(content.as_ref());
        self.0.extend(b"\nendobj\n");
        self
    }

    /// A catalog and one page: the objects 1 to 4 and 8, with Helvetica as object 4.
    pub(crate) fn page(self, fonts: &str, content: &str) -> Self {
        self.page_with(fonts, &stream("", content.as_bytes()))
    }

    /// The same, with the page's content as an object.
    pub(crate) fn page_with(self, fonts: &str, content: &[u8]) -> Self {
        self.object(1, "<</Type/Catalog/Pages 2 0 R>>")
            .object(2, "<</Type/Pages/Kids[9 0 R]/Count 1>>")
            .object(3, content)
            .object(4, "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>")
            .object(9, &format!("<</Type/Page/Parent 2 0 R/Contents 3 0 R/Resources<</Font<<{fonts}>>>>>>"))
    }

    pub(crate) fn bytes(mut self) -> Vec<u8> {
        self.0.extend(b"trailer\n<</Root 1 0 R>>\n%%EOF\n");
        self.0
    }

    pub(crate) fn without_trailer(self) -> Vec<u8> {
        self.0
    }
}

/// A page with this content, a font `H` without widths and a font `W` whose glyphs are half as wide as high.
pub(crate) fn page_of(content: &str) -> Vec<u8> {
    let widths = "500 ".repeat(256);
    Builder::new()
        .object(5, &format!("<</Type/Font/Subtype/Type1/BaseFont/Courier/FirstChar 0/Widths[{widths}]>>"))
        .page("/H 4 0 R/W 5 0 R", content)
        .bytes()
}

pub(crate) fn stream(dict: &str, data: &[u8]) -> Vec<u8> {
    let mut stream = format!("<<{dict}/Length {}>>\nstream\n", data.len()).into_bytes();
    stream.extend(data);
    stream.extend(b"\nendstream");
    stream
}

pub(crate) fn deflated(bytes: &[u8]) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(bytes, 6)
}
