//! Opens what is encrypted without a password to read it.
//!
//! Many PDFs are encrypted only to say what readers should not do with them: they open with an empty password. One that
//! asks for a password is refused. Only streams are decrypted, because no text that is shown lies in the strings of
//! other objects.

use aes::{
    Aes128, Aes256,
    cipher::{Block, BlockCipherDecrypt, KeyInit},
};
use md5::{Digest as _, Md5};

use super::{object::Dict, password_hash};

/// What passwords are filled up with.
const PADDING: [u8; 32] = *b"\x28\xbf\x4e\x5e\x4e\x75\x8a\x41\x64\x00\x4e\x56\xff\xfa\x01\x08\
                             \x2e\x2e\x00\xb6\xd0\x68\x3e\x80\x2f\x0c\xa9\xfe\x64\x53\x69\x7a";

/// How the streams of a file are decrypted.
pub(crate) struct Crypt {
    key: Vec<u8>,
    method: Method,
}

#[derive(Clone, Copy, PartialEq)]
enum Method {
    /// Not encrypted after all.
    Identity,
    Rc4,
    Aes128,
    Aes256,
}

/// The file asks for a password, or for a way of encryption that is not known.
#[derive(Debug)]
pub(crate) struct Locked;

impl Crypt {
    /// From the file's encryption dictionary, whose values are all in place, and the first part of its id.
    pub(crate) fn open(dict: &Dict, file_id: &[u8]) -> Result<Self, Locked> {
        let revision = dict.get(b"R").as_count().ok_or(Locked)?;
        let method = method(dict)?;
        if !dict.has_name(b"Filter", b"Standard") {
            return Err(Locked);
        }
        let key = match revision {
            2..=4 => legacy_key(dict, file_id, revision, method),
            5 | 6 => password_hash::file_key(dict, revision),
            _ => None,
        };
        Ok(Self { key: key.ok_or(Locked)?, method })
    }

    /// The bytes of the stream with this number and generation.
    pub(crate) fn decrypt(&self, data: &[u8], (number, generation): (u32, u16)) -> Vec<u8> {
        match self.method {
            Method::Identity => data.to_vec(),
            Method::Rc4 => rc4(&self.object_key(number, generation, b""), data),
            Method::Aes128 => {
                let key = self.object_key(number, generation, b"sAlT");
                Aes128::new_from_slice(&key).map(|aes| cbc(&aes, data)).unwrap_or_default()
            }
            Method::Aes256 => Aes256::new_from_slice(&self.key).map(|aes| cbc(&aes, data)).unwrap_or_default(),
        }
    }

    fn object_key(&self, number: u32, generation: u16, salt: &[u8]) -> Vec<u8> {
        let hash = Md5::new()
            .chain_update(&self.key)
            .chain_update(&number.to_le_bytes()[..3])
            .chain_update(generation.to_le_bytes())
            .chain_update(salt)
            .finalize();
        hash[..(self.key.len() + 5).min(16)].to_vec()
    }
}

fn method(dict: &Dict) -> Result<Method, Locked> {
    match dict.get(b"V").as_count() {
        Some(1..=3) => Ok(Method::Rc4),
        Some(4 | 5) => {
            let Some(name) = dict.get(b"StmF").as_name().filter(|name| *name != b"Identity") else {
                return Ok(Method::Identity);
            };
            let filters = dict.get(b"CF").clone().into_dict().unwrap_or_default();
            let filter = filters.get(name).clone().into_dict().unwrap_or_default();
            match filter.get(b"CFM").as_name() {
                Some(b"None") | None => Ok(Method::Identity),
                Some(b"V2") => Ok(Method::Rc4),
                Some(b"AESV2") => Ok(Method::Aes128),
                Some(b"AESV3") => Ok(Method::Aes256),
                Some(_) => Err(Locked),
            }
        }
        _ => Err(Locked),
    }
}

/// The key that the empty password gives, if it is the password.
fn legacy_key(dict: &Dict, file_id: &[u8], revision: usize, method: Method) -> Option<Vec<u8>> {
    let bits = match (dict.get(b"V").as_count()?, method) {
        (1, _) => 40,
        (_, Method::Aes128) => 128,
        // Writers disagree whether the length of this version is in bits; it is always 128 bits.
        (4, _) => 128,
        _ => dict.get(b"Length").as_count().unwrap_or(40),
    };
    let length = (bits / 8).clamp(5, 16);
    let owner = dict.get(b"O").as_string()?;
    let permissions = dict.get(b"P").as_number()? as i64 as u32;
    let mut hash = Md5::new()
        .chain_update(PADDING)
        .chain_update(owner.get(..32)?)
        .chain_update(permissions.to_le_bytes())
        .chain_update(file_id);
    if revision >= 4 && *dict.get(b"EncryptMetadata") == super::object::Object::Bool(false) {
        hash.update([0xff; 4]);
    }
    let mut key = hash.finalize();
    if revision >= 3 {
        for _ in 0..50 {
            key = Md5::digest(&key[..length]);
        }
    }
    let key = key[..length].to_vec();
    let expected = dict.get(b"U").as_string()?;
    let opens = if revision == 2 {
        expected.get(..32)? == rc4(&key, &PADDING)
    } else {
        let mut proof = rc4(&key, &Md5::new().chain_update(PADDING).chain_update(file_id).finalize());
        for round in 1..20 {
            let key: Vec<u8> = key.iter().map(|byte| byte ^ round).collect();
            proof = rc4(&key, &proof);
        }
        expected.get(..16)? == proof
    };
    opens.then_some(key)
}

fn rc4(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut state: [u8; 256] = std::array::from_fn(|i| i as u8);
    let mut j = 0_u8;
    for (i, key) in (0..=255_u8).zip(key.iter().cycle()) {
        j = j.wrapping_add(state[usize::from(i)]).wrapping_add(*key);
        state.swap(usize::from(i), usize::from(j));
    }
    let (mut i, mut j) = (0_u8, 0_u8);
    let mut next = || {
        i = i.wrapping_add(1);
        j = j.wrapping_add(state[usize::from(i)]);
        state.swap(usize::from(i), usize::from(j));
        state[usize::from(state[usize::from(i)].wrapping_add(state[usize::from(j)]))]
    };
    data.iter().map(|byte| byte ^ next()).collect()
}

/// Cipher block chaining: the first block is where it begins, the last bytes say how many were added to fill a block.
fn cbc<C: BlockCipherDecrypt>(cipher: &C, data: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(data.len());
    let mut blocks = data.chunks_exact(16);
    let Some(mut previous) = blocks.next() else { return plain };
    for block in blocks {
        let Ok(mut decrypted) = Block::<C>::try_from(block) else { return plain };
        cipher.decrypt_block(&mut decrypted);
        plain.extend(decrypted.iter().zip(previous).map(|(byte, previous)| byte ^ previous));
        previous = block;
    }
    if let Some(filling @ 1..=16) = plain.last().map(|byte| usize::from(*byte)) {
        plain.truncate(plain.len() - filling);
    }
    plain
}
