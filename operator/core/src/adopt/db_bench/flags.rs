//! A command line of `db_bench` as flags, read as gflags reads them.

use std::collections::BTreeMap;

use super::known::{self, FLAGS, Type, is_switch};
use crate::adopt::defaults::BUNDLED;
use crate::validate::did_you_mean;

/// Flags by name, without those that were asked for already.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    given: BTreeMap<String, String>,
    /// What is wrong with them, a sentence each: whoever corrects one should not meet the next only then.
    problems: Vec<String>,
}

/// The value of a flag without one.
const SET: &str = "true";

impl Flags {
    /// Reads a command line: what comes before the program and after a pipe or a redirection is no flag.
    pub fn parse(command: &str) -> Result<Self, String> {
        let words = shlex::split(command).ok_or("a quote in the command is not closed, or it ends in a backslash")?;
        let mut words: Vec<String> = words.iter().flat_map(|word| separated(word)).collect();
        let programs = commands(&words);
        if programs > 1 {
            return Err(format!(
                "these are {programs} commands of db_bench: pass one of them. Datasets are filled anew, so a command that only \
                 reads needs none before it; benchmarks with the same flags can share one --benchmarks list"
            ));
        }
        if let Some(program) = words.iter().position(|word| is_program(word)) {
            words.drain(..=program);
        } else if words.first().is_some_and(|word| !word.starts_with('-')) {
            return Err(format!("{:?} is not db_bench: pass its command line, or only its flags", words[0]));
        }
        if let Some(end) = words.iter().position(|word| is_of_the_shell(word)) {
            words.truncate(end);
        }
        let mut flags = Self::default();
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
                flags.refuse(format!("{word:?} is not a flag: write --flag=value, and quote values with blanks"));
                continue;
            };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None if is_off(flag) => (&flag[2..], "false".to_owned()),
                None if is_switch(flag) => (flag, SET.to_owned()),
                None => (flag, words.next_if(|next| is_value(next)).unwrap_or_else(|| SET.to_owned())),
            };
            if name.is_empty() {
                flags.refuse(format!("{word:?} has no name"));
            } else if value.contains("$(") || value.contains('`') || value.starts_with('$') {
                flags.refuse(format!("--{name}={value}: the shell has not replaced this; write the value itself"));
            } else {
                flags.given.insert(name.to_owned(), value);
            }
        }
        Ok(flags)
    }

    /// A flag's text, which is then no longer among the rest.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.given.remove(name)
    }

    /// Notes a problem; the command is refused once all of it was read.
    pub fn refuse(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// What was refused so far.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// What can be used. Where something is wrong, that is noted.
    pub fn accept<T>(&mut self, read: Result<T, String>) -> Option<T> {
        read.map_err(|problem| self.refuse(problem)).ok()
    }

    /// A flag's value; where it is missing or can't be used, what `db_bench` has without the flag.
    fn read<T>(&mut self, name: &str, default: T, read: impl Fn(&str, &str) -> Result<T, String>) -> T {
        let Some(text) = self.take(name) else { return default };
        self.accept(read(name, &text)).unwrap_or(default)
    }

    pub fn number(&mut self, name: &str, default: i64) -> i64 {
        self.read(name, default, whole)
    }

    pub fn decimal(&mut self, name: &str, default: f64) -> f64 {
        self.read(name, default, |name, text| {
            if matches!(FLAGS.get(name), Some(Type::Whole(..))) {
                return Ok(whole(name, text)? as f64);
            }
            decimal(name, text)
        })
    }

    pub fn switch(&mut self, name: &str, default: bool) -> bool {
        self.read(name, default, truth)
    }

    /// A whole number within bounds, which the default is.
    pub fn within(&mut self, name: &str, default: u64, least: u64, most: u64) -> u64 {
        self.read(name, default, |name, text| {
            let within = u64::try_from(whole(name, text)?).ok().filter(|number| (least..=most).contains(number));
            within.ok_or_else(|| format!("--{name}={text}: must be between {least} and {most}"))
        })
    }

    /// Refuses what `db_bench` refuses of the flags that nothing has asked for.
    pub fn refuse_rest(&mut self) {
        let version = &BUNDLED.version;
        let unfit = self.given.iter().filter_map(|(name, text)| match FLAGS.get(name.as_str()) {
            None => {
                let hint = did_you_mean(name, FLAGS.keys().copied());
                let hint = if hint.is_empty() { "; remove it".to_owned() } else { hint };
                Some(format!("--{name}={text}: db_bench of RocksDB {version} has no such flag{hint}"))
            }
            Some(Type::Whole(..)) => whole(name, text).err(),
            Some(Type::Switch) => truth(name, text).err(),
            Some(Type::Decimal) => decimal(name, text).err(),
            Some(Type::Text) => None,
        });
        self.problems.extend(unfit.collect::<Vec<_>>());
    }

    /// What nobody has asked for.
    pub fn rest(&self) -> impl Iterator<Item = (&str, &str)> {
        self.given.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// A whole number in one of the spellings of gflags, which has no suffixes.
pub fn whole(name: &str, text: &str) -> Result<i64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let number = number
        .map_err(|_| format!("--{name}={text}: not a whole number (db_bench takes no suffixes such as K or M)"))?;
    let (least, most) = known::bounds(name);
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(format!("--{name}={text}: db_bench takes numbers between {least} and {most}"))
    }
}

pub fn decimal(name: &str, text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("--{name}={text}: not a number"))
}

pub fn truth(name: &str, text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" | "yes" | "y" => Ok(true),
        "false" | "f" | "0" | "no" | "n" => Ok(false),
        _ => Err(format!("--{name}={text}: neither true nor false")),
    }
}

fn is_program(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    !word.starts_with('-') && !word.contains('=') && name.starts_with("db_bench")
}

/// Separators of commands may stand without blanks: `--num=5; db_bench`.
fn separated(word: &str) -> Vec<String> {
    let is_glued = |separator: &str| {
        let (_, next) = word.split_once(separator).unwrap_or_default();
        word.ends_with(separator) || is_program(next)
    };
    let Some(separator) = ["&&", ";"].into_iter().find(|separator| word.contains(separator) && is_glued(separator))
    else {
        return if word.is_empty() { Vec::new() } else { vec![word.to_owned()] };
    };
    let (before, after) = word.split_once(separator).unwrap_or((word, ""));
    let all = [before, separator, after].into_iter().filter(|part| !part.is_empty());
    all.map(str::to_owned).collect()
}

/// How often the program is called. A line may end without a separator; what follows a flag is its value.
fn commands(words: &[String]) -> usize {
    let mut before = None;
    let mut count = 0;
    for word in words {
        let is_value =
            |flag: &str| flag.starts_with('-') && !flag.contains('=') && !is_switch(flag.trim_start_matches('-'));
        if is_program(word) && !before.is_some_and(is_value) {
            count += 1;
        }
        before = Some(word.as_str());
    }
    count
}

fn is_of_the_shell(word: &str) -> bool {
    matches!(word, "|" | "||" | "&" | "&&" | ";" | "|&") || word.starts_with(['>', '<']) || word.starts_with("2>")
}

/// `nosync` switches `sync` off.
fn is_off(flag: &str) -> bool {
    flag.strip_prefix("no").is_some_and(is_switch)
}

/// Whether a word is a value rather than the next flag.
fn is_value(word: &str) -> bool {
    let negative = word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    negative || !word.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(command: &str) -> Result<Vec<(String, String)>, String> {
        let flags = Flags::parse(command)?;
        if let [first, ..] = flags.problems() {
            return Err(first.clone());
        }
        Ok(flags.rest().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn flags_in_every_spelling() {
        for (command, expected) in [
            (
                "db_bench --num=5 --threads 2 -value_size=10 -key_size 8",
                &[("key_size", "8"), ("num", "5"), ("threads", "2"), ("value_size", "10")][..],
            ),
            (
                "./build/db_bench --sync --num 7 --nohistogram --nouse_fsync",
                &[("histogram", "false"), ("num", "7"), ("sync", "true"), ("use_fsync", "false")],
            ),
            ("--num=5", &[("num", "5")]),
            ("rm -r /x && db_bench --num=5; cat log", &[("num", "5")]),
            ("db_bench --num=5;", &[("num", "5")]),
            ("db_bench --db /x/db_bench --cache_uri='a=1;b=2'", &[("cache_uri", "a=1;b=2"), ("db", "/x/db_bench")]),
            ("--cache_numshardbits -1 --seed=-3", &[("cache_numshardbits", "-1"), ("seed", "-3")]),
            (
                "LD_PRELOAD=x numactl -N 0 /opt/db_bench.static \\\n  --num=5 \\\n --db='/a b' | tee log",
                &[("db", "/a b"), ("num", "5")],
            ),
            ("db_bench --num=1 --num=2 > out 2>&1", &[("num", "2")]),
            (
                "db_bench --benchmarks=\"fillseq,readrandom\" --db=/db_bench",
                &[("benchmarks", "fillseq,readrandom"), ("db", "/db_bench")],
            ),
            ("db_bench --statistics --unknown --num=1", &[("num", "1"), ("statistics", "true"), ("unknown", "true")]),
            ("", &[]),
        ] {
            assert_eq!(flags(command), Ok(pairs(expected)), "{command}");
        }
    }

    #[test]
    fn what_is_no_command_line_says_why() {
        for (command, message) in [
            ("db_bench --num=5 && db_bench --num=6", "these are 2 commands of db_bench: pass one of them"),
            ("db_bench --num=5 --sync; LD_PRELOAD=x ./db_bench --num=6;./db_bench", "these are 3 commands of db_bench"),
            ("rm -r /x;db_bench --num=5&&db_bench\n", "these are 2 commands of db_bench"),
            ("db_bench --num=5\n./db_bench --num=6", "these are 2 commands of db_bench"),
            ("db_bench --db='/a", "a quote in the command is not closed"),
            ("ldb scan", "\"ldb\" is not db_bench"),
            ("db_bench --num=5 fillseq", "\"fillseq\" is not a flag"),
            ("db_bench --=5", "\"--=5\" has no name"),
            ("db_bench --num=$N", "--num=$N: the shell has not replaced this"),
            ("db_bench --num=$(nproc)", "--num=$(nproc): the shell has not replaced this"),
        ] {
            let said = flags(command).unwrap_err();
            assert!(said.starts_with(message), "{command}: {said}");
        }
    }

    #[test]
    fn values_are_checked() {
        let mut flags = Flags::parse("--a=0x10 --b=1M --c=maybe --d=1e3 --e=nan --f=t --g=10 --h=9").unwrap();
        assert_eq!([flags.number("a", 1), flags.number("none", 1), flags.number("b", 7)], [16, 1, 7]);
        assert_eq!([flags.switch("c", true), flags.switch("f", false)], [true, true]);
        assert_eq!([flags.decimal("d", 0.0), flags.decimal("e", 0.5)], [1000.0, 0.5]);
        assert_eq!([flags.within("g", 3, 1, 9), flags.within("h", 3, 1, 9)], [3, 9]);
        let problems = [
            "--b=1M: not a whole number (db_bench takes no suffixes such as K or M)",
            "--c=maybe: neither true nor false",
            "--e=nan: not a number",
            "--g=10: must be between 1 and 9",
        ];
        assert_eq!(flags.problems(), problems);
        assert_eq!(flags.rest().count(), 0);
        let mut flags =
            Flags::parse("--threads=99999999999 --bloom_bits=1.5 --numm=5 --old --bgwriter_num=x --db=1").unwrap();
        assert_eq!((flags.number("threads", 1), flags.decimal("bloom_bits", 0.0)), (1, 0.0));
        flags.refuse_rest();
        assert_eq!(
            flags.problems(),
            [
                "--threads=99999999999: db_bench takes numbers between -2147483648 and 2147483647",
                "--bloom_bits=1.5: not a whole number (db_bench takes no suffixes such as K or M)",
                "--bgwriter_num=x: not a whole number (db_bench takes no suffixes such as K or M)",
                "--numm=5: db_bench of RocksDB 11.8.1 has no such flag; did you mean num?",
                "--old=true: db_bench of RocksDB 11.8.1 has no such flag; remove it",
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(db_bench|--|-|num|=|5|'|\"|\\\\|\\$| |\n|.){0,30}") {
            let _ = Flags::parse(&text);
        }
    }
}
