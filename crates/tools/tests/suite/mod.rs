mod builtin;
mod inputs;
mod tool_set;
