//! The end of a Parquet file, which says what its columns are. The reader follows columns that lie in each other by recursion, so
//! that a few bytes could exhaust its stack: their depth is looked at first.

use std::{
    fs,
    io::{self, Read, Seek, SeekFrom},
};

/// How deep the columns of a file lie in each other; `None` if its end makes no sense.
pub fn depth(file: &mut fs::File) -> io::Result<Option<usize>> {
    let size = file.seek(SeekFrom::End(0))?;
    if size < 12 {
        return Ok(None);
    }
    let mut end = [0; 8];
    file.seek(SeekFrom::Start(size - 8))?;
    file.read_exact(&mut end)?;
    let [length @ .., b'P', b'A', b'R', b'1'] = end else { return Ok(None) };
    let length = u64::from(u32::from_le_bytes(length));
    if length > size - 12 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(size - 8 - length))?;
    let mut footer = vec![0; length as usize];
    file.read_exact(&mut footer)?;
    file.rewind()?;
    Ok(Thrift(&footer).schema_depth())
}

/// Thrift's compact protocol, as far as it takes to pass over things.
struct Thrift<'a>(&'a [u8]);

/// Types of the protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

/// Deeper than any structure of the format.
const DEEPEST: usize = 16;

impl Thrift<'_> {
    /// The depth of the tree that the second field lists, parents before their children.
    fn schema_depth(&mut self) -> Option<usize> {
        // The reader does not look at types: what is not of the right one, or there twice, makes no sense.
        let mut field = 0;
        while self.field(&mut field)? != LIST || field != 2 {
            if field != 1 {
                return None;
            }
            self.number()?;
        }
        let (elements, STRUCT) = self.list()? else { return None };
        // How many children each of the open parents still has to come.
        let (mut open, mut deepest) = (Vec::new(), 0);
        for _ in 0..elements {
            let children = self.children()?;
            if children > elements {
                return None;
            }
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            deepest = deepest.max(open.len() + 1);
            open.push(children);
            while open.last() == Some(&0) {
                open.pop();
            }
        }
        // No second list.
        loop {
            match self.field(&mut field)? {
                0 => return Some(deepest),
                _ if field == 2 => return None,
                kind => self.pass(kind, DEEPEST)?,
            }
        }
    }

    /// The number of children that an element says it has.
    fn children(&mut self) -> Option<u64> {
        let (mut field, mut children) = (0, 0);
        loop {
            match self.field(&mut field)? {
                0 => return Some(children),
                // Signs alternate: 0, -1, 1, -2, 2.
                I32 if field == 5 => children = self.number()? >> 1,
                _ if field == 5 => return None,
                kind => self.pass(kind, DEEPEST)?,
            }
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// The type of the next field of a structure, 0 at its end; `last` becomes its number.
    fn field(&mut self, last: &mut i16) -> Option<u8> {
        let byte = self.byte()?;
        *last = match byte >> 4 {
            // A number of its own instead of a step from the last; those of the format are small and positive.
            0 if byte != 0 => i16::try_from(self.number()? >> 1).ok()?,
            step => last.checked_add(i16::from(step))?,
        };
        Some(byte & 0x0f)
    }

    /// A list's length, and the type of what is in it.
    fn list(&mut self) -> Option<(u64, u8)> {
        let byte = self.byte()?;
        let length = if byte >> 4 == 15 { self.number()? } else { u64::from(byte >> 4) };
        Some((length, byte & 0x0f))
    }

    fn pass(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            TRUE | FALSE => Some(()),
            BYTE => self.skip(1),
            I16..=I64 => self.number().map(drop),
            DOUBLE => self.skip(8),
            BINARY => {
                let length = self.number()?;
                self.skip(length)
            }
            LIST | SET => {
                let (length, kind) = self.list()?;
                // In a list, a truth value takes a byte.
                let kind = if kind == TRUE || kind == FALSE { BYTE } else { kind };
                (0..length).try_for_each(|_| self.pass(kind, depth))
            }
            STRUCT => {
                let mut field = 0;
                loop {
                    match self.field(&mut field)? {
                        0 => return Some(()),
                        kind => self.pass(kind, depth)?,
                    }
                }
            }
            _ => None,
        }
    }
}
