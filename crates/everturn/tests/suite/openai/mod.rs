//! OpenAI's own SDKs against the program: whatever they can do must work, in Python and in Node.

mod answers;
mod clients;
mod durable;
mod errors;
mod raw;
mod sdk;
mod tools;
