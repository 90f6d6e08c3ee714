mod child;
mod contract;
mod kill;
mod open;
mod secrets;
mod sim;
