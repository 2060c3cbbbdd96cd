//! The questions of `assay init` to somebody at a terminal.

use std::io::{BufRead, Write};

use anyhow::bail;
use assay_core::adopt::{Answers, Change};
use assay_core::quantity;

/// Asks until every answer can be used. An empty line takes what is in brackets.
pub fn ask(input: &mut dyn BufRead, output: &mut dyn Write) -> anyhow::Result<Answers> {
    let mut person = Person { input, output };
    let keys = person.answer("Number of keys", "1000000", |text| within(text, 1, 100_000_000_000))?;
    let value_bytes = person.answer("Bytes of a value", "400", |text| within(text, 0, 16 << 20))?;
    let read_percent = person.answer("Share of reads in percent", "90", |text| within(text, 0, 100))?;
    let cache = person.answer("Block cache, such as 512Mi", "32Mi", |text| {
        quantity::bytes(text).map_err(|error| format!("{text} {error}"))
    })?;
    let change = person.answer("RocksDB option to try", "block_size=16384", str::parse::<Change>)?;
    Ok(Answers {
        keys,
        value_bytes: value_bytes as u32,
        read_percent: read_percent as u32,
        cache_bytes: (cache > 0).then_some(cache),
        change,
    })
}

struct Person<'a> {
    input: &'a mut dyn BufRead,
    output: &'a mut dyn Write,
}

impl Person<'_> {
    fn answer<T>(
        &mut self,
        question: &str,
        default: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> anyhow::Result<T> {
        loop {
            write!(self.output, "{question} [{default}]: ")?;
            self.output.flush()?;
            let mut line = String::new();
            if self.input.read_line(&mut line)? == 0 {
                writeln!(self.output)?;
                bail!("no answer to {question:?}; nothing was written");
            }
            let text = line.trim();
            match read(if text.is_empty() { default } else { text }) {
                Ok(answer) => return Ok(answer),
                Err(error) => writeln!(self.output, "  {error}")?,
            }
        }
    }
}

fn within(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{text}: give a whole number between {least} and {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(typed: &str) -> (anyhow::Result<Answers>, String) {
        let mut said = Vec::new();
        let answers = ask(&mut typed.as_bytes(), &mut said);
        (answers, String::from_utf8(said).unwrap())
    }

    #[test]
    fn empty_lines_take_the_defaults() {
        let (answers, said) = asked("\n\n\n\n\n");
        let answers = answers.unwrap();
        assert_eq!((answers.keys, answers.value_bytes, answers.read_percent), (1_000_000, 400, 90));
        assert_eq!(answers.cache_bytes, Some(32 << 20));
        assert_eq!(answers.change.option, "block_based_table_factory.block_size");
        assert!(said.starts_with("Number of keys [1000000]: Bytes of a value [400]: "), "{said}");
    }

    #[test]
    fn what_can_not_be_used_is_asked_again() {
        let (answers, said) = asked("many\n5\n-1\n0\n101\n50\n1 GB\n1Gi\nblok_size=8K\nblock_size=8K\n");
        let answers = answers.unwrap();
        assert_eq!((answers.keys, answers.value_bytes, answers.read_percent), (5, 0, 50));
        assert_eq!(answers.cache_bytes, Some(1 << 30));
        assert_eq!(answers.change.option, "block_based_table_factory.block_size");
        for line in [
            "many: give a whole number between 1 and 100000000000\n",
            "101: give a whole number between 0 and 100\n",
            "1 GB is not a quantity",
            "has no option blok_size; did you mean block_size?",
        ] {
            assert!(said.contains(line), "{line}: {said}");
        }
    }

    #[test]
    fn an_end_of_input_ends_it() {
        let (answers, said) = asked("5\n");
        assert_eq!(answers.unwrap_err().to_string(), "no answer to \"Bytes of a value\"; nothing was written");
        assert!(said.ends_with('\n'), "{said}");
    }
}
