//! Names the formats that cannot be read, so that a refusal says what was sent.

use memchr::memmem;

/// Formats that are known by how they begin.
const BEGINNINGS: [(&[u8], &str); 36] = [
    (b"\x7fELF", "a program (ELF)"),
    (b"MZ", "a Windows program"),
    (b"\xfe\xed\xfa\xce", "a program (Mach-O)"),
    (b"\xfe\xed\xfa\xcf", "a program (Mach-O)"),
    (b"\xce\xfa\xed\xfe", "a program (Mach-O)"),
    (b"\xcf\xfa\xed\xfe", "a program (Mach-O)"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"),
    (b"\0asm", "a WebAssembly module"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document (.doc, .xls or .ppt)"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"BM", "a BMP image"),
    (b"\0\0\x01\0", "an icon"),
    (b"8BPS", "a Photoshop image"),
    (b"\0\0\0\x0cjP  ", "a JPEG 2000 image"),
    (b"\xff\x0a", "a JPEG XL image"),
    (b"ID3", "an MP3 recording"),
    (b"\xff\xfb", "an MP3 recording"),
    (b"OggS", "an Ogg recording"),
    (b"fLaC", "a FLAC recording"),
    (b"\x1aE\xdf\xa3", "a Matroska or WebM video"),
    (b"RIFF", "a RIFF file (WAV or AVI)"),
    (b"FLV\x01", "a Flash video"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
    (b"OTTO", "a font"),
    (b"\0\x01\0\0\0", "a font"),
    (b"PAR1", "a Parquet table"),
    (b"\x80\x04\x95", "a Python pickle"),
];

/// What a ZIP archive is, by a file in it.
const ARCHIVES: [(&[u8], &str); 7] = [
    (b"word/", "a Word document (.docx)"),
    (b"xl/", "an Excel workbook (.xlsx)"),
    (b"ppt/", "a PowerPoint presentation (.pptx)"),
    (b"mimetypeapplication/epub", "an EPUB book"),
    (b"mimetypeapplication/vnd.oasis.opendocument", "an OpenDocument file (.odt, .ods or .odp)"),
    (b"META-INF/MANIFEST.MF", "a Java archive"),
    (b"AndroidManifest.xml", "an Android package"),
];

/// How much of an archive is looked at for the names of its files, at its beginning and at its end.
const LOOK: usize = 64 << 10;

/// What the bytes seem to be, if they begin as a known format does.
pub(crate) fn recognise(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        let ends = [&bytes[..bytes.len().min(LOOK)], &bytes[bytes.len().saturating_sub(LOOK)..]];
        let known = ARCHIVES.iter().find(|(file, _)| ends.iter().any(|end| memmem::find(end, file).is_some()));
        return Some(known.map_or("a ZIP archive", |(_, found)| found));
    }
    if let Some(brand) = bytes.get(4..12).and_then(|kind| kind.strip_prefix(b"ftyp")) {
        return Some(match brand {
            b"heic" | b"heix" | b"mif1" | b"msf1" => "a HEIC image",
            b"avif" | b"avis" => "an AVIF image",
            _ => "an MP4 or QuickTime video",
        });
    }
    if bytes.get(257..262) == Some(b"ustar") {
        return Some("a tar archive");
    }
    BEGINNINGS.iter().find(|(beginning, _)| bytes.starts_with(beginning)).map(|(_, found)| *found)
}
