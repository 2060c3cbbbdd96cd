//! When nights are due: five fields as cron has them, in a time zone of the IANA database.
//!
//! Where clocks are set forward, a night that falls into the lost hour is due right after it; where they are set back, one in the
//! doubled hour is due once, as Vixie's cron does it. A schedule with a wildcard in its hours follows the clock instead.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

/// A schedule that has at least one night.
#[derive(Clone, Debug)]
pub struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

/// Why there is no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unscheduled {
    /// Of `schedule`.
    Schedule(String),
    /// Of `timeZone`.
    Zone(String),
}

/// What fields consist of. Extensions of this and that cron would mean something else elsewhere.
const WORDS: [&str; 19] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC", "SUN", "MON", "TUE", "WED",
    "THU", "FRI", "SAT",
];

/// The fields, and what each takes.
const FIELDS: [(&str, &str); 5] = [
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31"),
    ("month", "1 to 12, or JAN to DEC"),
    ("day of the week", "0 to 7, or SUN to SAT"),
];

/// So many nights in a row show how close together they are: two years of nights on one day of the month, a month of daily ones.
const SAMPLED: usize = 64;
/// The same for the nights of a year.
const SAMPLED_YEARLY: usize = 400;

impl Schedule {
    /// Reads both fields of a sweep. `now` is where the search for the first night begins.
    pub fn parse(schedule: &str, zone: &str, now: Timestamp) -> Result<Self, Unscheduled> {
        let unscheduled = |why: String| Unscheduled::Schedule(why);
        let found = TimeZone::get(zone).map_err(|_| {
            Unscheduled::Zone(format!(
                "{zone:?} is no time zone: use a name of the IANA database, such as Europe/Berlin or Etc/UTC"
            ))
        })?;
        let fields: Vec<&str> = schedule.split_whitespace().collect();
        if schedule.contains("TZ=") {
            return Err(unscheduled("names a time zone: set timeZone instead".to_owned()));
        }
        if fields.len() != 5 {
            let message = format!(
                "has {} fields: write minute, hour, day of the month, month and day of the week, such as 17 1 * * *",
                fields.len()
            );
            return Err(unscheduled(message));
        }
        for field in &fields {
            let words = field.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
            let unknown = words.into_iter().find(|word| !WORDS.contains(&word.to_ascii_uppercase().as_str()));
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '*' | ',' | '-' | '/');
            let is_whole = field.split(',').all(|item| !item.is_empty());
            if unknown.is_some() || !field.chars().all(is_plain) || !is_whole {
                return Err(unscheduled(format!(
                    "can't read {field:?}: use numbers, names such as MON or JAN, and * , - /"
                )));
            }
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(schedule).map_err(|error| {
            // Which field it is, the parser does not say.
            let alone = |place: usize| {
                let field = |(own, field): (usize, &&str)| if own == place { *field } else { "*" }.to_owned();
                fields.iter().enumerate().map(field).collect::<Vec<_>>().join(" ")
            };
            let wrong = (0..fields.len()).find(|place| parser.parse(&alone(*place)).is_err());
            unscheduled(wrong.map_or(format!("can't be read: {error}"), |place| {
                let (name, range) = FIELDS[place];
                format!("can't read {:?} as the {name}: use {range}", fields[place])
            }))
        })?;
        let parsed = Self { cron, zone: found };
        if parsed.next_after(now).is_none() {
            return Err(unscheduled("is never due: no year has such a day".to_owned()));
        }
        Ok(parsed)
    }

    /// The first night after a time.
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let next = self.cron.find_next_occurrence(&time.to_zoned(self.zone.clone()), false);
        next.ok().and_then(|next| whole_second(&next))
    }

    /// The last night that is due by a time.
    pub fn last_until(&self, time: Timestamp) -> Option<Timestamp> {
        let last = self.cron.find_previous_occurrence(&time.to_zoned(self.zone.clone()), true);
        last.ok().and_then(|last| whole_second(&last))
    }

    /// When it shows that nights are not measured: two more have been due since the longest time without one had passed.
    pub fn stale_from(&self, measured: Timestamp, longest: SignedDuration) -> Option<Timestamp> {
        self.next_after(measured.checked_add(longest).ok()?).and_then(|due| self.next_after(due))
    }

    /// A time by the clocks of the schedule's zone.
    pub fn local(&self, time: Timestamp) -> Zoned {
        time.to_zoned(self.zone.clone())
    }

    /// Nights in a year on average, of those to come.
    pub fn nights_a_year(&self, now: Timestamp) -> f64 {
        const YEAR: f64 = 365.25 * 86_400.0;
        // Enough for every season, or for a rate that is known well.
        let nights = std::iter::successors(self.next_after(now), |night| self.next_after(*night)).take(SAMPLED_YEARLY);
        let nights: Vec<Timestamp> = nights.collect();
        match (nights.first(), nights.last()) {
            (Some(first), Some(last)) if last > first => {
                (nights.len() - 1) as f64 * YEAR / last.duration_since(*first).as_secs_f64()
            }
            _ => 1.0,
        }
    }

    /// The shortest time between two nights in a row, of many.
    pub fn closest(&self, now: Timestamp) -> Option<SignedDuration> {
        let mut nights = Vec::with_capacity(SAMPLED);
        let mut time = now;
        while nights.len() < SAMPLED
            && let Some(next) = self.next_after(time)
        {
            nights.push(next);
            time = next;
        }
        nights.windows(2).map(|pair| pair[1].duration_since(pair[0])).min()
    }
}

/// A search that begins within a second ends within one.
fn whole_second(found: &Zoned) -> Option<Timestamp> {
    Timestamp::from_second(found.timestamp().as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Timestamp {
        time.parse().expect("a time")
    }

    fn schedule(schedule: &str, zone: &str) -> Schedule {
        Schedule::parse(schedule, zone, at("2026-01-01T00:00:00Z")).expect("a schedule")
    }

    /// The nights of a schedule within a span, forwards; going backwards finds the same.
    fn nights(of: &Schedule, from: &str, until: &str) -> Vec<String> {
        let (mut time, until) = (at(from), at(until));
        let mut forwards = Vec::new();
        while let Some(next) = of.next_after(time).filter(|next| *next <= until) {
            forwards.push(next);
            time = next;
        }
        let mut backwards = Vec::new();
        let mut time = until;
        while let Some(last) = of.last_until(time).filter(|last| *last > at(from)) {
            backwards.push(last);
            time = last - SignedDuration::from_secs(1);
        }
        backwards.reverse();
        assert_eq!(forwards, backwards);
        forwards.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_night_is_due_once_in_the_hours_that_clocks_lose_or_double() {
        let berlin = schedule("30 2 * * *", "Europe/Berlin");
        // On 29 March 2026, 02:00 became 03:00; on 25 October, 03:00 became 02:00.
        assert_eq!(
            nights(&berlin, "2026-03-27T12:00:00Z", "2026-03-30T12:00:00Z"),
            ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
        );
        assert_eq!(
            nights(&berlin, "2026-10-23T12:00:00Z", "2026-10-26T12:00:00Z"),
            ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        let utc = schedule("30 2 * * *", "Etc/UTC");
        assert_eq!(nights(&utc, "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z"), ["2026-03-29T02:30:00Z"]);
    }

    #[test]
    fn nights_are_missed_only_once_they_were_due() {
        let stale = |fields: &str| {
            let week = SignedDuration::from_hours(7 * 24);
            schedule(fields, "Etc/UTC").stale_from(at("2026-11-02T01:17:00Z"), week).map(|from| from.to_string())
        };
        assert_eq!(stale("17 1 * * *").unwrap(), "2026-11-11T01:17:00Z");
        // Two nights in a row, and then none for a month.
        assert_eq!(stale("17 1 1,2 * *").unwrap(), "2026-12-02T01:17:00Z");
        assert_eq!(stale("17 1 29 2 *").unwrap(), "2032-02-29T01:17:00Z");
    }

    /// What is found going back is what is found going forward, in every zone and whatever its clocks do.
    #[test]
    fn whoever_looks_back_sees_the_nights_that_were_to_come() {
        let zones = [
            "Europe/Berlin",
            "America/New_York",
            "Australia/Lord_Howe",
            "Antarctica/Troll",
            "Africa/Casablanca",
            "Africa/Cairo",
        ];
        let schedules = [
            "30 2 * * *",
            "0 0 * * *",
            "0,30 2 * * *",
            "15 1,2,3 * * *",
            "*/7 2 * * *",
            "0 */2 * * *",
            "0 3 31 * *",
            "10 2 * * sun",
        ];
        for (zone, fields) in zones.iter().flat_map(|zone| schedules.map(|fields| (*zone, fields))) {
            let of = schedule(fields, zone);
            for (from, until) in
                [("2026-03-20T12:00:00Z", "2026-04-07T12:00:00Z"), ("2026-10-20T12:00:00Z", "2026-11-03T12:00:00Z")]
            {
                let found = nights(&of, from, until);
                let mut once = found.clone();
                once.dedup();
                assert_eq!(once, found, "{fields} {zone}");
            }
        }
    }

    #[test]
    fn no_text_is_too_strange_to_be_refused() {
        let pieces = [
            "*",
            "0",
            "1",
            "59",
            "60",
            "7",
            "31",
            "2",
            "-",
            ",",
            "/",
            "MON",
            "feb",
            "L",
            "#",
            "W",
            "é",
            "99999999999999999999",
            "*/0",
            "5-1",
            "1-",
            "-1",
            "1//2",
            "jan-mar",
            "sat-sun",
            "0-7",
            "*/99",
            "1/5",
            "mon/2",
        ];
        let mut noise = crate::sweep::testing::Noise::new(5);
        let mut sound = 0;
        for _ in 0..2_000 {
            let field = |noise: &mut crate::sweep::testing::Noise| {
                let count = ((noise.uniform() * 6.0) as usize).saturating_sub(2);
                if count == 0 {
                    return "*".to_owned();
                }
                (0..count)
                    .map(|_| pieces[(noise.uniform() * pieces.len() as f64) as usize % pieces.len()])
                    .collect::<String>()
            };
            let fields: Vec<String> = (0..5).map(|_| field(&mut noise)).collect();
            let fields = fields.join(" ");
            let now = at("2026-01-01T00:00:00Z");
            if let Ok(of) = Schedule::parse(&fields, "Europe/Berlin", now) {
                sound += 1;
                let next = of.next_after(now).expect("a night");
                assert!(next > now, "{fields}");
                assert_eq!(of.last_until(next), Some(next), "{fields}");
            }
        }
        assert!(sound > 40, "{sound}");
    }

    #[test]
    fn fields_are_those_of_cron() {
        let weekdays = schedule("17 1 * * mon-fri", "Etc/UTC");
        assert_eq!(
            nights(&weekdays, "2026-11-26T00:00:00Z", "2026-12-01T00:00:00Z"),
            ["2026-11-26T01:17:00Z", "2026-11-27T01:17:00Z", "2026-11-30T01:17:00Z"]
        );
        // Both days restricted: either is enough.
        let either = schedule("0 0 13 * 5", "Etc/UTC");
        assert_eq!(
            nights(&either, "2026-11-10T12:00:00Z", "2026-11-21T00:00:00Z"),
            ["2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"]
        );
        assert_eq!(
            schedule("*/10 * * * *", "Etc/UTC").closest(at("2026-01-01T00:00:00Z")),
            Some(SignedDuration::from_mins(10))
        );
        // A night of 23 hours.
        assert_eq!(
            schedule("30 4 * * *", "Europe/Berlin").closest(at("2026-03-01T00:00:00Z")),
            Some(SignedDuration::from_hours(23))
        );
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_its_field_and_reason() {
        let refused = |schedule: &str, zone: &str| match Schedule::parse(schedule, zone, at("2026-01-01T00:00:00Z")) {
            Ok(_) => panic!("{schedule} {zone} is accepted"),
            Err(Unscheduled::Schedule(why)) => format!("schedule: {why}"),
            Err(Unscheduled::Zone(why)) => format!("timeZone: {why}"),
        };
        for (fields, zone, expected) in [
            ("17 1 * *", "Etc/UTC", "schedule: has 4 fields"),
            ("0 17 1 * * *", "Etc/UTC", "schedule: has 6 fields"),
            ("@daily", "Etc/UTC", "schedule: has 1 fields"),
            ("17 25 * * *", "Etc/UTC", "schedule: can't read \"25\" as the hour: use 0 to 23"),
            ("60 1 * * *", "Etc/UTC", "schedule: can't read \"60\" as the minute: use 0 to 59"),
            ("17 1 31 2 *", "Etc/UTC", "schedule: is never due"),
            ("17 1 30 FEB *", "Etc/UTC", "schedule: is never due"),
            ("17 1 L * *", "Etc/UTC", "schedule: can't read \"L\""),
            ("17 1 * * FRI-TUE-SUN", "Etc/UTC", "schedule: can't read \"FRI-TUE-SUN\" as the day of the week"),
            ("17 1 * * 5#2", "Etc/UTC", "schedule: can't read \"5#2\""),
            ("17 1 ? * *", "Etc/UTC", "schedule: can't read \"?\""),
            ("17 , * * *", "Etc/UTC", "schedule: can't read \",\""),
            ("17 1, * * *", "Etc/UTC", "schedule: can't read \"1,\""),
            ("TZ=UTC 1 * * *", "Etc/UTC", "schedule: names a time zone"),
            ("17 1 * * *", "Europe/Atlantis", "timeZone: \"Europe/Atlantis\" is no time zone"),
            ("17 1 * * *", "", "timeZone: \"\" is no time zone"),
            ("17 1 * * *", "../../etc/passwd", "timeZone: "),
        ] {
            let why = refused(fields, zone);
            assert!(why.starts_with(expected), "{fields} {zone}: {why}");
        }
    }
}
