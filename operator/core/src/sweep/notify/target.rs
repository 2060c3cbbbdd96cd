//! Where a webhook is. Read once, by one reader, so that what was checked is what is connected to.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The longest name that DNS has.
const LONGEST_NAME: usize = 253;

/// The host of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// In lowercase.
    Name(String),
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// An address to post to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub is_tls: bool,
    pub host: Host,
    pub port: u16,
    /// With its query.
    pub path: String,
}

impl Target {
    /// The error is the end of a sentence that begins with the address.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (is_tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err("must begin with https://".to_owned()),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("must not have a user or a password: messages are signed with the key of the Secret".to_owned());
        }
        let is_plain = |c: char| c.is_ascii_graphic() && !"\"#<>\\^`{|}".contains(c);
        if !path.chars().all(is_plain) {
            return Err("has characters that must be written as %XX, or a fragment (#)".to_owned());
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, port) = split(authority)?;
        let port = match port {
            Some(port) => number(port)?,
            None if is_tls => 443,
            None => 80,
        };
        Ok(Self { is_tls, host, port, path })
    }

    /// Host and port, as people and the header `Host` have them.
    pub fn authority(&self) -> String {
        match (self.is_tls, self.port) {
            (true, 443) | (false, 80) => self.host.to_string(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }
}

fn split(authority: &str) -> Result<(Host, Option<&str>), String> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or("has a '[' without its ']'")?;
        let address: Ipv6Addr = address.parse().map_err(|_| format!("has no IPv6 address in [{address}]"))?;
        let port = match port {
            "" => None,
            port => Some(port.strip_prefix(':').ok_or("must have its port after ']:'")?),
        };
        return Ok((Host::Address(address.into()), port));
    }
    let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok((Host::Address(address), port));
    }
    let name = host.to_ascii_lowercase();
    let is_label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // Resolvers take 2130706433 and 127.1 for addresses, too.
    let ends_as_a_name = name.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_lowercase()));
    if name.len() > LONGEST_NAME || !name.split('.').all(is_label) || !ends_as_a_name {
        return Err(format!("has no host that is a name or an address: {host:?}"));
    }
    Ok((Host::Name(name), port))
}

fn number(port: &str) -> Result<u16, String> {
    let is_number = port.chars().all(|c| c.is_ascii_digit());
    let number = port.parse().ok().filter(|number| is_number && *number != 0);
    number.ok_or_else(|| format!("has no port between 1 and 65535: {port:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_meaning() {
        let name = |name: &str| Host::Name(name.to_owned());
        let address = |text: &str| Host::Address(text.parse().unwrap());
        for (url, is_tls, host, port, path, authority) in [
            ("https://Hooks.example.com", true, name("hooks.example.com"), 443, "/", "hooks.example.com"),
            ("https://h.example:443/a?b=c", true, name("h.example"), 443, "/a?b=c", "h.example"),
            ("https://h.example:8443?b", true, name("h.example"), 8443, "/?b", "h.example:8443"),
            ("http://localhost:8080/x", false, name("localhost"), 8080, "/x", "localhost:8080"),
            ("http://10.0.0.7/", false, address("10.0.0.7"), 80, "/", "10.0.0.7"),
            ("https://[fd00::7]:9/", true, address("fd00::7"), 9, "/", "[fd00::7]:9"),
            ("https://[fd00::7]", true, address("fd00::7"), 443, "/", "[fd00::7]"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(target.authority(), authority);
            assert_eq!(target, Target { is_tls, host, port, path: path.to_owned() }, "{url}");
        }
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        for (url, words) in [
            ("ftp://h.example", "must begin with https://"),
            ("HTTPS://h.example", "must begin with https://"),
            ("h.example", "must begin with https://"),
            ("https://", "no host"),
            ("https:///path", "no host"),
            ("https://user@h.example", "a user or a password"),
            ("https://allowed.example@169.254.169.254/", "a user or a password"),
            ("https://h.example\\@evil.example/", "a user or a password"),
            ("https://h.example\\evil", "no host"),
            ("https://h.example/#x", "%XX"),
            ("https://h.example/a b", "%XX"),
            ("https://h.example/\r\nX: y", "%XX"),
            ("https://h.example:0/", "no port"),
            ("https://h.example:+1/", "no port"),
            ("https://h.example:65536/", "no port"),
            ("https://h.example:/", "no port"),
            ("https://[::1/", "without its ']'"),
            ("https://[::1]8080/", "after ']:'"),
            ("https://[127.0.0.1]/", "no IPv6 address"),
            ("https://2130706433/", "no host"),
            ("https://0x7f.1/", "no host"),
            ("https://127.1/", "no host"),
            ("https://h..example/", "no host"),
            ("https://-h.example/", "no host"),
            ("https://h.example./", "no host"),
            ("https://höst.example/", "no host"),
        ] {
            let refused = Target::parse(url).expect_err(url);
            assert!(refused.contains(words), "{url}: {refused}");
        }
        assert!(Target::parse(&format!("https://{}.example", "a.".repeat(130))).is_err());
    }
}
