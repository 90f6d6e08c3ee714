//! The hash that newer encryption makes of a password, here of the empty one.

use aes::{
    Aes128, Aes256,
    cipher::{Block, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit},
};
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::object::Dict;

/// The hash ends by itself after some 70 rounds. This many have never been seen.
const MAX_ROUNDS: usize = 1024;

/// The file's key, if the empty password opens it.
pub(crate) fn file_key(dict: &Dict, revision: usize) -> Option<Vec<u8>> {
    let user = dict.get(b"U").as_string()?;
    let (proof, check_salt, key_salt) = (user.get(..32)?, user.get(32..40)?, user.get(40..48)?);
    let hash = |salt: &[u8]| if revision == 5 { Sha256::digest(salt).to_vec() } else { hardened(salt) };
    if hash(check_salt) != proof {
        return None;
    }
    let cipher = Aes256::new_from_slice(&hash(key_salt)).ok()?;
    let mut previous = [0; 16];
    let mut key = Vec::with_capacity(32);
    for block in dict.get(b"UE").as_string()?.get(..32)?.chunks_exact(16) {
        let mut decrypted = Block::<Aes256>::try_from(block).ok()?;
        cipher.decrypt_block(&mut decrypted);
        key.extend(decrypted.iter().zip(previous).map(|(byte, previous)| byte ^ previous));
        previous.copy_from_slice(block);
    }
    Some(key)
}

/// Algorithm 2.B of ISO 32000-2, for the empty password.
fn hardened(salt: &[u8]) -> Vec<u8> {
    let mut hash = Sha256::digest(salt).to_vec();
    for round in 0..MAX_ROUNDS {
        let Some(scrambled) = scramble(&hash) else { break };
        let last = scrambled.last().copied().unwrap_or_default();
        let choice = scrambled.iter().take(16).map(|byte| u32::from(*byte)).sum::<u32>() % 3;
        hash = match choice {
            0 => Sha256::digest(&scrambled).to_vec(),
            1 => Sha384::digest(&scrambled).to_vec(),
            _ => Sha512::digest(&scrambled).to_vec(),
        };
        if round >= 63 && usize::from(last) <= round - 31 {
            break;
        }
    }
    hash.truncate(32);
    hash
}

/// 64 copies of the hash, encrypted with its own first half.
fn scramble(hash: &[u8]) -> Option<Vec<u8>> {
    let cipher = Aes128::new_from_slice(hash.get(..16)?).ok()?;
    let mut previous: Block<Aes128> = Block::<Aes128>::try_from(hash.get(16..32)?).ok()?;
    let mut scrambled = Vec::with_capacity(hash.len() * 64);
    for block in hash.repeat(64).chunks_exact(16) {
        for (byte, plain) in previous.iter_mut().zip(block) {
            *byte ^= plain;
        }
        cipher.encrypt_block(&mut previous);
        scrambled.extend(previous);
    }
    Some(scrambled)
}
