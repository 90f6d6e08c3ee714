mod cli;
mod config_problems;
mod config_values;
mod detect;
