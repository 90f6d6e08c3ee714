//! Which addresses are on the internet. All others belong to this machine, its network or nobody.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is that nothing shall be sent to; `None` for one on the internet.
pub fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => v4_not_public(v4),
        IpAddr::V6(v6) => v6_not_public(v6),
    }
}

fn v4_not_public(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("unspecified"),
        [127, ..] => Some("loopback"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some("private"),
        [100, 64..=127, ..] => Some("shared by a carrier"),
        [169, 254, ..] => Some("link-local"),
        // The one place on the internet from which a cloud tells its machines about themselves.
        [168, 63, 129, 16] => Some("a metadata server"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some("for documentation"),
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => Some("for special use"),
        [224..=239, ..] => Some("multicast"),
        [240..=255, ..] => Some("reserved"),
        _ => None,
    }
}

fn v6_not_public(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        v4_not_public(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("loopback"),
        // IPv4 in other clothes: mapped, translated by NAT64, tunnelled by 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            embedded(high, low)
        }
        [0x64, 0xff9b, ..] => Some("translated within a network"),
        [0xfc00..=0xfdff, ..] => Some("private"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("for documentation"),
        // Teredo, which hides an IPv4 address of anybody's, and what else has no servers.
        [0x2001, 0..=0x1ff, ..] => Some("for special use"),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("reserved"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_internet() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.215.14",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "168.63.129.17",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
            "2002:808:808::1",
        ] {
            assert_eq!(not_public(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn all_others() {
        for (text, what) in [
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("10.0.0.1", "private"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.1.1", "private"),
            ("100.64.0.1", "shared by a carrier"),
            ("100.100.100.200", "shared by a carrier"),
            ("169.254.169.254", "link-local"),
            ("168.63.129.16", "a metadata server"),
            ("192.0.2.1", "for documentation"),
            ("198.51.100.1", "for documentation"),
            ("203.0.113.1", "for documentation"),
            ("192.0.0.1", "for special use"),
            ("198.18.0.1", "for special use"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("255.255.255.255", "reserved"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::127.0.0.1", "reserved"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:10.0.0.1", "private"),
            ("::ffff:169.254.169.254", "link-local"),
            ("::ffff:0:127.0.0.1", "reserved"),
            ("64:ff9b::7f00:1", "loopback"),
            ("64:ff9b::a9fe:a9fe", "link-local"),
            ("64:ff9b:1::1", "translated within a network"),
            ("2002:7f00:1::", "loopback"),
            ("2002:a00:1::1", "private"),
            ("2001:0:7f00:1::", "for special use"),
            ("2001:db8::1", "for documentation"),
            ("3fff::1", "for documentation"),
            ("fd00:ec2::254", "private"),
            ("fe80::1", "link-local"),
            ("fec0::1", "reserved"),
            ("ff02::1", "multicast"),
            ("100::1", "reserved"),
            ("4000::1", "reserved"),
        ] {
            assert_eq!(not_public(text.parse().unwrap()), Some(what), "{text}");
        }
    }

    proptest::proptest! {
        /// However an IPv4 address is dressed up, it is what it is.
        #[test]
        fn embedded_addresses_are_looked_at(v4: Ipv4Addr) {
            let [a, b, c, d] = v4.octets();
            let plain = not_public(v4.into());
            proptest::prop_assert_eq!(not_public(v4.to_ipv6_mapped().into()), plain);
            let nat64 = Ipv6Addr::from([0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]);
            proptest::prop_assert_eq!(not_public(nat64.into()), plain);
            let tunnel = Ipv6Addr::from([0x20, 2, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            proptest::prop_assert_eq!(not_public(tunnel.into()), plain);
        }
    }
}
