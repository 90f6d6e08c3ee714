//! Encrypted PDFs. The files were made with pypdf; each holds one page.

use everturn_documents::{Bounds, DocumentError, read};

#[test]
fn those_that_ask_for_no_password_are_read() {
    let files: [(&str, &[u8]); 5] = [
        ("RC4, 40 bits", include_bytes!("../fixtures/opens-rc4-40.pdf")),
        ("RC4, 128 bits", include_bytes!("../fixtures/opens-rc4-128.pdf")),
        ("AES, 128 bits", include_bytes!("../fixtures/opens-aes-128.pdf")),
        ("AES, 256 bits, revision 5", include_bytes!("../fixtures/opens-aes-256-r5.pdf")),
        ("AES, 256 bits, revision 6", include_bytes!("../fixtures/opens-aes-256.pdf")),
    ];
    for (method, bytes) in files {
        let document = read("a.pdf", bytes, Bounds::default()).unwrap();
        assert_eq!(
            (document.text.as_deref(), document.pages),
            (Some("Opened without a password"), Some(1)),
            "{method}"
        );
    }
}

#[test]
fn those_that_ask_for_a_password_are_refused() {
    let files: [&[u8]; 2] =
        [include_bytes!("../fixtures/locked-rc4-128.pdf"), include_bytes!("../fixtures/locked-aes-256.pdf")];
    for bytes in files {
        assert_eq!(read("a.pdf", bytes, Bounds::default()), Err(DocumentError::PasswordProtected));
    }
}
