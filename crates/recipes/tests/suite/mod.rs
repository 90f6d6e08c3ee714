mod folder;
mod hostile;
mod hostile_templates;
mod properties;
mod read;
mod render;
mod sample;
