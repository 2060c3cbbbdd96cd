//! Where no name may lead: to the operator's own machine, and to what clouds tell a machine about itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata services of clouds that are not link-local: Alibaba's, Azure's, and that of AWS by IPv6.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Whether a name must not lead there, whoever answers for it.
pub fn is_forbidden(address: IpAddr) -> bool {
    let is_of_the_machine = match address {
        IpAddr::V4(v4) => v4.octets()[0] == 0 || v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => {
            v6.is_unicast_link_local() || v6.is_unspecified() || embedded(v6).is_some_and(|v4| is_forbidden(v4.into()))
        }
    };
    is_of_the_machine || address.is_loopback() || address.is_multicast() || METADATA.contains(&address)
}

/// The IPv4 address that an IPv6 address leads to: mapped or compatible, through NAT64 or by 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_no_machine_itself() {
        for forbidden in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.8.9.10",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "100.100.100.200",
            "168.63.129.16",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "2002:a9fe:a9fe::1",
        ] {
            assert!(is_forbidden(forbidden.parse().unwrap()), "{forbidden}");
        }
        // Receivers are often in the cluster itself.
        for free in ["10.0.0.7", "192.168.1.1", "203.0.113.9", "fd00::7", "2001:db8::1", "::ffff:10.0.0.7", "fec0::1"] {
            assert!(!is_forbidden(free.parse().unwrap()), "{free}");
        }
    }
}
