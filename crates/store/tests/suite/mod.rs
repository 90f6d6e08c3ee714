mod child;
mod contract;
mod deleted;
mod kill;
mod open;
mod secrets;
mod shared;
mod sim;
