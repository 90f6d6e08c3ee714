mod bench;
mod licences;
mod links;
mod repository;
mod tidy;
