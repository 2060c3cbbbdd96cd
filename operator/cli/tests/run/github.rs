//! `assay sweep github`, against as much of GitHub as it uses.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::lab::Ran;
use crate::nights::Lab;

pub const TOKEN: &str = "ghs_0123456789abcdef";
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What an answer of another kind is made by.
type Answer = Box<dyn Fn(&mut TcpStream) + Send>;

#[derive(Default)]
struct State {
    /// The latest first, as GitHub lists them.
    statuses: Vec<Value>,
    comments: Vec<Value>,
    /// Requests as `METHOD PATH`, with their headers in lowercase.
    requests: Vec<(String, String)>,
    /// Instead of what would be right.
    answer: Option<Answer>,
}

/// A repository there, with pull request 7.
#[derive(Clone)]
pub struct GitHub {
    state: Arc<Mutex<State>>,
    pub url: String,
}

impl GitHub {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/api/v3", listener.local_addr().unwrap());
        let github = Self { state: Arc::default(), url };
        let served = github.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (served, stream) = (served.clone(), stream.unwrap());
                std::thread::spawn(move || served.serve(stream));
            }
        });
        github
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let head = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let head: Vec<String> = head.collect();
            let Some((line, headers)) = head.split_first() else { return };
            let headers = headers.join("\n").to_lowercase();
            let length = headers.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            let request = line.trim_end_matches(" HTTP/1.1").to_owned();
            let mut state = self.state.lock().unwrap();
            state.requests.push((request.clone(), headers));
            if let Some(answer) = &state.answer {
                return answer(&mut stream);
            }
            let (method, target) = request.split_once(' ').unwrap();
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let path = path.strip_prefix("/api/v3/repos/lab/rocksdb/").unwrap_or_default();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let (code, links, answer) = state.answer_to(method, path, query, body);
            let length = answer.len();
            write!(stream, "HTTP/1.1 {code} x\r\n{links}content-length: {length}\r\n\r\n{answer}").unwrap();
        }
    }

    pub fn comments(&self) -> Vec<Value> {
        self.state.lock().unwrap().comments.clone()
    }

    /// State and description of each status, the latest first.
    pub fn statuses(&self) -> Vec<(String, String)> {
        let of = |status: &Value, field: &str| status[field].as_str().unwrap().to_owned();
        self.state
            .lock()
            .unwrap()
            .statuses
            .iter()
            .map(|status| (of(status, "state"), of(status, "description")))
            .collect()
    }

    /// Requests that write.
    pub fn writes(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        state
            .requests
            .iter()
            .map(|(request, _)| request.clone())
            .filter(|request| !request.starts_with("GET "))
            .collect()
    }

    fn answers(&self, answer: impl Fn(&mut TcpStream) + Send + 'static) {
        self.state.lock().unwrap().answer = Some(Box::new(answer));
    }

    /// What `assay sweep github` makes of the sweep in a lab.
    pub fn told(&self, lab: &Lab, more: &[&str]) -> Ran {
        let args = ["sweep", "github", "--history", "out"];
        let mut command = lab.command(&[&args, more].concat(), "");
        command.env("GITHUB_TOKEN", TOKEN).env("GITHUB_API_URL", &self.url);
        command.env("GITHUB_REPOSITORY", "lab/rocksdb").env("GITHUB_SHA", COMMIT);
        Ran(command.output().unwrap())
    }
}

impl State {
    /// A code, the header that leads to further pages, and a body.
    fn answer_to(&mut self, method: &str, path: &str, query: &str, mut body: Value) -> (u16, String, String) {
        let id = self.comments.len() + self.statuses.len() + 1000;
        let found = match (method, path) {
            ("GET", path) if path == format!("commits/{COMMIT}/statuses") => page(&self.statuses, query),
            ("GET", "issues/7/comments") => page(&self.comments, query),
            ("POST", path) if path == format!("statuses/{COMMIT}") => {
                self.statuses.insert(0, body.clone());
                (201, String::new(), body)
            }
            ("POST", "issues/7/comments") => {
                body["id"] = json!(id);
                self.comments.push(body.clone());
                (201, String::new(), body)
            }
            ("PATCH", path) => {
                let id: u64 = path.strip_prefix("issues/comments/").unwrap().parse().unwrap();
                let own = self.comments.iter_mut().find(|comment| comment["id"] == id).unwrap();
                own["body"] = body["body"].clone();
                (200, String::new(), own.clone())
            }
            _ => (404, String::new(), json!({"message": "Not Found"})),
        };
        (found.0, found.1, found.2.to_string())
    }
}

/// One page of a list. Where the next one is said to be is somebody else's machine.
fn page(all: &[Value], query: &str) -> (u16, String, Value) {
    let number = |name: &str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        value.unwrap().parse::<usize>().unwrap()
    };
    let (size, page) = (number("per_page"), number("page"));
    let start = ((page - 1) * size).min(all.len());
    let end = (start + size).min(all.len());
    let links = if end < all.len() { "link: <http://203.0.113.9/>; rel=\"next\"\r\n" } else { "" };
    (200, links.to_owned(), json!(all[start..end]))
}

fn set_up() -> (GitHub, Lab) {
    let lab = Lab::new();
    lab.run(&["--now"]).succeeded();
    (GitHub::start(), lab)
}

#[test]
fn a_sweep_without_changes_is_a_success_and_no_comment() {
    let (github, lab) = set_up();
    let ran = github.told(&lab, &["--pull-request", "7"]);
    ran.succeeded();
    let said = format!("status assay/buffers of {COMMIT}: success: no open regression");
    assert_eq!(ran.stdout(), format!("{said}\ncomment on #7: not needed\n"));
    assert_eq!(github.statuses(), [("success".to_owned(), "no open regression".to_owned())]);
    assert!(github.comments().is_empty());
    let again = github.told(&lab, &["--pull-request", "7"]);
    assert_eq!(again.stdout(), format!("{said} (unchanged)\ncomment on #7: not needed\n"));
    assert_eq!(github.writes().len(), 1, "{:?}", github.writes());
    let state = github.state.lock().unwrap();
    for (_, headers) in &state.requests {
        for header in [
            &format!("authorization: bearer {TOKEN}"),
            "accept: application/vnd.github+json",
            "x-github-api-version: 2022-11-28",
            "user-agent: assay/",
        ] {
            assert!(headers.contains(header), "{header}: {headers}");
        }
    }
}

/// Statuses of others and of before, and more comments than a page has.
#[test]
fn what_is_there_already_is_found_among_others() {
    let (github, lab) = set_up();
    let marker = "<!-- assay sweep buffers -->";
    let comment = |id: usize| json!({"id": id, "body": if id == 240 { format!("{marker}\r\nold") } else { format!("+1 {marker}") }});
    let status =
        |id: usize| json!({"context": format!("ci/{id}"), "state": "success", "description": "no open regression"});
    {
        let mut state = github.state.lock().unwrap();
        state.comments = (1..=250).map(comment).collect();
        state.statuses = (1..=130).map(status).collect();
        state.statuses.push(json!({"context": "assay/buffers", "state": "failure", "description": "x"}));
    }
    let ran = github.told(&lab, &["--pull-request", "7"]);
    ran.succeeded();
    assert!(ran.stdout().ends_with("comment on #7: edited\n"), "{}", ran.stdout());
    assert_eq!(
        github.writes(),
        [
            format!("POST /api/v3/repos/lab/rocksdb/statuses/{COMMIT}"),
            "PATCH /api/v3/repos/lab/rocksdb/issues/comments/240".to_owned()
        ]
    );
    let comments = github.comments();
    assert_eq!(comments.len(), 250);
    assert!(comments[239]["body"].as_str().unwrap().ends_with("No change is known.\n"), "{}", comments[239]);
    github.told(&lab, &["--pull-request", "7"]).succeeded();
    assert_eq!(github.writes().len(), 2, "nothing is written again");
}

/// Each is told in words, and no answer gets the token printed.
#[test]
fn refusals_say_what_to_do() {
    let (github, lab) = set_up();
    let reset = "x-ratelimit-remaining: 0\r\nx-ratelimit-reset: 1893456000\r\n";
    for (code, headers, message, expected) in [
        (401, "", "Bad credentials", "GitHub rejected GITHUB_TOKEN (Bad credentials): set a valid token"),
        (403, "", "Resource not accessible by integration", "GITHUB_TOKEN may not do that (Resource not accessible"),
        (
            403,
            reset,
            "API rate limit exceeded",
            "the rate limit is reached (API rate limit exceeded): try again after 2030-01-01T00:00:00Z",
        ),
        (429, "retry-after: 60\r\n", "slow down", "the rate limit is reached (slow down): try again in 60 s"),
        (404, "", "Not Found", "not found (Not Found): check --repository, --commit and --pull-request"),
        (422, "", "No commit found for SHA", "GitHub rejected it (No commit found for SHA): check --commit"),
        (502, "", TOKEN, "GitHub answered 502 (***): try again later"),
        (500, "", "a\\u001b[31mb", "GitHub answered 500 (a [31mb): try again later"),
    ] {
        let body = format!("{{\"message\": \"{message}\"}}");
        github.answers(move |stream| {
            let _ = write!(stream, "HTTP/1.1 {code} x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        });
        let ran = github.told(&lab, &[]);
        ran.refused(&format!("can't read the statuses of commit {COMMIT} in lab/rocksdb: "));
        ran.refused(expected);
        assert!(!ran.stderr().contains(TOKEN) && !ran.stderr().contains('\u{1b}'), "{}", ran.stderr());
    }
    assert!(github.writes().is_empty());
}

#[test]
fn hostile_answers_end() {
    let (github, lab) = set_up();
    let other = GitHub::start();
    let place = other.url.clone();
    github.answers(move |stream| {
        let _ = write!(stream, "HTTP/1.1 301 x\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n");
    });
    github.told(&lab, &[]).refused("GitHub answered 301, and redirects are not followed: was the repository renamed?");
    assert!(other.state.lock().unwrap().requests.is_empty(), "it was asked");

    let plain = |text: &'static str| {
        move |stream: &mut TcpStream| {
            let _ = stream.write_all(text.as_bytes());
        }
    };
    for (text, expected) in [
        ("HTTP/1.1 200 x\r\ncontent-length: 5\r\n\r\n<html", "did not answer with JSON"),
        ("HTTP/1.1 200 x\r\ncontent-length: 2\r\n\r\n{}", "the answer is no list"),
        ("HTTP/1.1 200 x\r\ncontent-length: 20\r\n\r\n[", "can't read the answer of 127.0.0.1:"),
        ("SSH-2.0-OpenSSH_9.9\r\n\r\n", "can't reach 127.0.0.1:"),
        ("", "can't reach 127.0.0.1:"),
    ] {
        github.answers(plain(text));
        github.told(&lab, &[]).refused(expected);
    }
    // A gigabyte, and pages without an end.
    github.answers(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 1073741824\r\n\r\n");
        let block = vec![b' '; 1 << 20];
        while stream.write_all(&block).is_ok() {}
    });
    github.told(&lab, &[]).refused("can't read the answer of 127.0.0.1:");
    let before = github.state.lock().unwrap().requests.len();
    github.answers(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 x\r\nlink: <x>; rel=\"next\"\r\ncontent-length: 4\r\n\r\n[{}]");
    });
    github.told(&lab, &[]).refused("there are more than 100 pages");
    assert_eq!(github.state.lock().unwrap().requests.len() - before, 100);
    assert!(github.writes().is_empty());
}

/// Before anybody is asked.
#[test]
fn the_token_goes_nowhere_else() {
    let (github, lab) = set_up();
    let with = |variable: &str, value: &str, expected: &str| {
        let mut command = lab.command(&["sweep", "github", "--history", "out"], "");
        command.env("GITHUB_TOKEN", TOKEN).env("GITHUB_API_URL", &github.url);
        command.env("GITHUB_REPOSITORY", "lab/rocksdb").env("GITHUB_SHA", COMMIT).env(variable, value);
        let ran = Ran(command.output().unwrap());
        ran.refused(expected);
        assert!(!ran.stderr().contains("ghs_"), "{}", ran.stderr());
    };
    with("GITHUB_API_URL", "http://api.example.com", "must begin with https://, because the token is sent there");
    with("GITHUB_API_URL", "http://127.0.0.1.example.com", "must begin with https://");
    with("GITHUB_API_URL", "ftp://api.example.com", "must begin with https://");
    with("GITHUB_API_URL", "https://a:b@api.example.com", "must not have a user or a password");
    with("GITHUB_API_URL", "https://api.example.com/v3?x=", "must end with a path: remove the query");
    with("GITHUB_TOKEN", "", "set GITHUB_TOKEN to a token of GitHub");
    with("GITHUB_TOKEN", "ghs_1\r\nx-evil: 1", "GITHUB_TOKEN has characters that no token has");
    with("GITHUB_SHA", "main", "GITHUB_SHA: must be the whole hash of a commit, not \"main\"");
    with("GITHUB_SHA", "", "pass --commit, or set GITHUB_SHA");
    with("GITHUB_REPOSITORY", "lab/../x", "GITHUB_REPOSITORY: must be OWNER/NAME");
    assert!(github.state.lock().unwrap().requests.is_empty());
    let help = lab.assay(&["sweep", "github", "--history", "out", "--token", "x"]);
    assert_eq!(help.code(), 2, "a command line is seen by others");
    fs::remove_dir_all(lab.path("")).unwrap();
    github.told(&lab, &[]).refused("is not the folder of a sweep");
}
