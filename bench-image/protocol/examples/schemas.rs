//! Writes the JSON Schemas of the trial protocol into a folder: `cargo run -p assay-protocol --example schemas -- schemas`.

use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("usage: schemas FOLDER")?;
    for (name, schema) in assay_protocol::schemas() {
        fs::write(Path::new(&folder).join(name), serde_json::to_string_pretty(&schema)? + "\n")?;
    }
    Ok(())
}
