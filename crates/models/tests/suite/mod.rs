mod aimock;
mod bodies;
mod demo;
mod llama;
mod peers;
mod raw_server;
mod transcript;
mod transport;
