//! PFDEBUG and PFSELFTEST.

use punctual_resp::{Args, Reply};
use rand::RngExt as _;

use super::hash::place;
use super::sketch::{self, Form};
use super::{REGISTERS, dense, sparse};
use crate::arguments::is;
use crate::error::Error;
use crate::turn::Cx;
use crate::value::string::Str;

const NO_KEY: Error = Error::fixed("ERR The specified key does not exist");
const NOT_SPARSE: Error = Error::fixed("ERR HLL encoding is not sparse");

pub(super) fn pfdebug(cx: &mut Cx, args: Args, reply: &mut Reply) -> Result<(), Error> {
    let word = &args[1];
    let (at, found) = cx.seek_as::<Str>(&args[2])?;
    let id = found.ok_or(NO_KEY)?;
    let mut buffer = itoa::Buffer::new();
    let string = cx.view::<Str>(at, id)?.text(&mut buffer);
    let form = sketch::form(string)?;
    match () {
        () if is(word, "DECODE") => {
            if form == Form::Dense {
                return Err(NOT_SPARSE);
            }
            reply.bulk(sparse::text(sketch::registers(string)).as_bytes());
        }
        () if is(word, "ENCODING") => reply.simple(match form {
            Form::Dense => "dense",
            Form::Sparse => "sparse",
        }),
        () if is(word, "GETREG") || is(word, "TODENSE") => {
            let string = cx.edit::<Str>(at, id)?.raw();
            let was_sparse = sketch::to_dense(string)?;
            if is(word, "TODENSE") {
                reply.int(was_sparse.into());
            } else {
                reply.array(REGISTERS);
                sketch::dense_registers(string)?.for_each(|register| reply.int(register.into()));
            }
            if was_sparse {
                cx.commit_silently(&args[2], 1);
            }
        }
        () => {
            return Err(Error::repeating(
                "ERR Unknown PFDEBUG subcommand '",
                word,
                "'",
            ));
        }
    }
    Ok(())
}

/// Number of times that PFSELFTEST writes and reads all registers.
const TEST_ROUNDS: usize = 20;
/// Number of elements that PFSELFTEST adds. Redis's ten million would block the server for seconds.
const TEST_ELEMENTS: u64 = 100_000;

pub(super) fn pfselftest(cx: &mut Cx, _: Args, reply: &mut Reply) -> Result<(), Error> {
    let mut random = cx.store().draws.generator();
    let failed = |what: String| Error::Text(format!("ERR TESTFAILED {what}").into());
    for _ in 0..TEST_ROUNDS {
        let mut bytes = vec![0; dense::BYTES];
        let wanted: Vec<u8> = (0..REGISTERS).map(|_| random.random_range(0..64)).collect();
        for (index, value) in wanted.iter().enumerate() {
            dense::raise(&mut bytes, index, *value);
        }
        for (index, (value, wanted)) in dense::iter(&bytes).zip(wanted).enumerate() {
            if value != wanted {
                let what = format!("Register {index} should be {wanted} but is {value}");
                return Err(failed(what));
            }
        }
    }
    let sparse_max = cx.limits().hll_sparse_bytes;
    let (mut sparse, mut dense) = (sketch::empty(), sketch::empty());
    sketch::to_dense(&mut dense)?;
    let seed: u64 = random.random();
    let mut checkpoint = 1;
    for n in 1..=TEST_ELEMENTS {
        let (index, value) = place(&(n ^ seed).to_le_bytes());
        sketch::raise(&mut sparse, index, value, sparse_max)?;
        sketch::raise(&mut dense, index, value, sparse_max)?;
        if n != checkpoint {
            continue;
        }
        checkpoint *= 10;
        if n < sparse_max as u64 / 2 && sketch::form(&sparse)? != Form::Sparse {
            return Err(failed("sparse encoding not used".into()));
        }
        let estimate = sketch::estimate(&dense)?;
        if sketch::estimate(&sparse)? != estimate {
            return Err(failed("dense/sparse disagree".into()));
        }
        let error = estimate.abs_diff(n);
        // The bound is six standard errors.
        let error_max = (1.04 / (REGISTERS as f64).sqrt() * 6.0 * n as f64).ceil();
        if error as f64 > error_max {
            return Err(failed(format!("Too big error. card:{n} abserr:{error}")));
        }
    }
    reply.ok();
    Ok(())
}
