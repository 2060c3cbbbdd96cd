//! As much of the encoding of protocol buffers as it takes to read one answer.

/// A field's value: of other kinds there is nothing here that anybody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) => None,
        }
    }
}

/// The fields of a message, by their numbers, in its order; `None` where it is none.
pub fn fields(mut message: &[u8]) -> Option<Vec<(u64, Value<'_>)>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let number = tag >> 3;
        match tag & 7 {
            0 => fields.push((number, Value::Number(varint(&mut message)?))),
            1 => drop(take(&mut message, 8)?),
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                fields.push((number, Value::Bytes(take(&mut message, length)?)));
            }
            5 => drop(take(&mut message, 4)?),
            _ => return None,
        }
    }
    Some(fields)
}

/// A list of numbers that share one field.
pub fn packed(mut list: &[u8]) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    while !list.is_empty() {
        numbers.push(varint(&mut list)?);
    }
    Some(numbers)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..10 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(7 * place)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_others_passed_over() {
        let message = [0x08, 0x96, 0x01, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1a, 2, b'h', b'i', 0x25, 1, 2, 3, 4];
        assert_eq!(fields(&message), Some(vec![(1, Value::Number(150)), (3, Value::Bytes(b"hi"))]));
        assert_eq!(fields(&[]), Some(vec![]));
        assert_eq!(packed(&[1, 0xac, 2]), Some(vec![1, 300]));
    }

    #[test]
    fn what_is_broken_is_none() {
        for broken in [
            &[0x08][..],
            &[0x08, 0x80],
            &[0x1a, 5, b'h'],
            &[0x0b],
            &[0x11, 1],
            &[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
        ] {
            assert_eq!(fields(broken), None, "{broken:?}");
        }
    }
}
