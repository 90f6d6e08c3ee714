mod encrypted;
mod hostile;
mod html;
mod images;
mod kinds;
mod sample;
