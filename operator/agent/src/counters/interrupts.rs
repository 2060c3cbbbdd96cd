//! `/proc/interrupts`: a line for each source, a column for each CPU that is on.

use std::collections::BTreeMap;

/// Interrupts of devices that each CPU served; `None` where the text is not what the kernel writes. Sources with a number are devices:
/// others are the kernel's own, and those of its timers are no disturbance either, whatever they are called.
pub fn parse(text: &str) -> Option<BTreeMap<u32, u64>> {
    let mut lines = text.lines();
    let cpus: Option<Vec<u32>> =
        lines.next()?.split_whitespace().map(|cpu| cpu.strip_prefix("CPU")?.parse().ok()).collect();
    let cpus = cpus.filter(|cpus| !cpus.is_empty())?;
    let mut served: BTreeMap<u32, u64> = cpus.iter().map(|&cpu| (cpu, 0)).collect();
    for line in lines {
        let (source, rest) = line.split_once(':')?;
        if source.trim().parse::<u32>().is_err() || rest.trim_end().ends_with("timer") {
            continue;
        }
        let mut counts = rest.split_whitespace();
        for cpu in &cpus {
            let count: u64 = counts.next()?.parse().ok()?;
            *served.entry(*cpu).or_default() += count;
        }
    }
    Some(served)
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "\
            CPU0       CPU1       CPU3
   0:         35          0          0  IR-IO-APIC    2-edge      timer
   8:          0          1          0  IR-IO-APIC    8-edge      rtc0
 124:          0    4818200          0  IR-PCI-MSIX-0000:01:00.0   1-edge      nvme0q1
 125:          5          7     123456  IR-PCI-MSIX-0000:02:00.0   1-edge      eth0-TxRx-0
 NMI:       1000       1000       1000   Non-maskable interrupts
 LOC:   28221967    8699518      10000   Local timer interrupts
 TRM:          2          0          0   Thermal event interrupts
 ERR:          0
 MIS:          0
";
    const ARM: &str = "\
           CPU0       CPU1
 11:   57208430   57111983     GICv3  27 Level     arch_timer
 13:        100          0     GICv3  33 Level     uart-pl011
IPI0:    171892     203344       Rescheduling interrupts
Err:          0
";

    #[test]
    fn interrupts_of_devices_are_counted() {
        assert_eq!(parse(X86), Some(BTreeMap::from([(0, 5), (1, 4_818_208), (3, 123_456)])));
        assert_eq!(parse(ARM), Some(BTreeMap::from([(0, 100), (1, 0)])));
    }

    #[test]
    fn what_is_not_understood_is_unknown() {
        let cut = &X86[..X86.find("nvme0q1").unwrap() - 60];
        for text in [
            "",
            "\n",
            "nothing to see",
            " CPU0 CPUx\n",
            " CPU0 CPU1\n 8: 1\n",
            " CPU0\n 8: many x\n",
            " CPU0\n 8 1\n",
            cut,
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
