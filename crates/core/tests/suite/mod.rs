mod arbitrary;
mod context;
mod segment;
mod turn;
mod valid;
