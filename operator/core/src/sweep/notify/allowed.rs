//! Where an administrator lets messages go.

use std::fmt;
use std::str::FromStr;

use super::target::{Host, Target};

/// An entry of `sweeps.webhooks.allowedHosts`: a host, or `*.` and what names end with; with a port, unless it is the usual one. Without TLS
/// only if it begins with http://.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    is_suffix: bool,
    target: Target,
}

impl Allowed {
    pub fn allows(&self, target: &Target) -> bool {
        let own = &self.target;
        let is_host = match (&own.host, &target.host) {
            (Host::Name(suffix), Host::Name(name)) if self.is_suffix => {
                name.strip_suffix(suffix.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            (own, host) => !self.is_suffix && own == host,
        };
        is_host && own.is_tls == target.is_tls && own.port == target.port
    }
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme, rest),
            None => ("https", text),
        };
        if rest.contains(['/', '?', '#']) {
            return Err(format!("{text} must be a host, not an address with a path"));
        }
        let (is_suffix, host) = rest.strip_prefix("*.").map_or((false, rest), |suffix| (true, suffix));
        let target = Target::parse(&format!("{scheme}://{host}")).map_err(|why| format!("{text} {why}"))?;
        if is_suffix && matches!(target.host, Host::Address(_)) {
            return Err(format!("{text} has an address after *., which ends no name"));
        }
        Ok(Self { is_suffix, target })
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.target.is_tls { "" } else { "http://" };
        let any = if self.is_suffix { "*." } else { "" };
        write!(f, "{scheme}{any}{}", self.target.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_allowed() {
        for (entry, url, is_allowed) in [
            ("hooks.example.com", "https://hooks.example.com/a", true),
            ("Hooks.Example.com", "https://hooks.EXAMPLE.com:443/a", true),
            ("hooks.example.com", "https://hooks.example.com:8443/", false),
            ("hooks.example.com:8443", "https://hooks.example.com:8443/", true),
            ("hooks.example.com", "http://hooks.example.com/", false),
            ("http://hooks.example.com", "http://hooks.example.com/", true),
            ("http://hooks.example.com", "https://hooks.example.com/", false),
            ("hooks.example.com", "https://x.hooks.example.com/", false),
            ("hooks.example.com", "https://evilhooks.example.com/", false),
            ("*.example.com", "https://a.b.example.com/", true),
            ("*.example.com", "https://example.com/", false),
            ("*.example.com", "https://evilexample.com/", false),
            ("*.example.com", "https://example.com.evil.org/", false),
            ("*.example.com", "https://10.0.0.7/", false),
            ("10.0.0.7", "https://10.0.0.7/", true),
            ("10.0.0.7", "https://10.0.0.70/", false),
            ("http://[::1]:8080", "http://[0:0::1]:8080/", true),
        ] {
            let allowed: Allowed = entry.parse().unwrap();
            assert_eq!(allowed.allows(&Target::parse(url).unwrap()), is_allowed, "{entry} {url}");
        }
        assert_eq!("http://*.Example.com:80".parse::<Allowed>().unwrap().to_string(), "http://*.example.com");
    }

    #[test]
    fn entries_that_mean_something_else_are_refused() {
        for (entry, words) in [
            ("", "no host"),
            ("*", "no host"),
            ("*.", "no host"),
            ("h.*.example", "no host"),
            ("https://h.example/", "not an address with a path"),
            ("ftp://h.example", "must begin with https://"),
            ("*.0.0.7", "no host"),
            ("*.10.0.0.7", "ends no name"),
            ("h.example:x", "no port"),
        ] {
            let refused = entry.parse::<Allowed>().expect_err(entry);
            assert!(refused.contains(words), "{entry}: {refused}");
        }
    }
}
