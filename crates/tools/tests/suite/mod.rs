mod builtin;
mod tool_set;
