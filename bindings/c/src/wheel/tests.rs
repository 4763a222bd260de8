use super::due::*;
use super::whole::*;
use super::*;
use std::ptr;

fn value(number: usize) -> *mut c_void {
    ptr::without_provenance_mut(number)
}

#[test]
fn the_first_key_is_not_no_key() {
    assert_eq!(to_key(TimerKey::new(0, 0)), 1);
    assert_eq!(from_key(to_key(TimerKey::new(5, 7))), TimerKey::new(5, 7));
    let mut wheel = punctual_wheel_new();
    let wheel = wheel.as_deref_mut();
    assert_eq!(
        punctual_wheel_remove(wheel, NO_KEY, None),
        Status::Stale,
        "an index that no record has"
    );
}

#[test]
fn arrays_are_written_up_to_their_capacity() {
    let mut wheel = punctual_wheel_new();
    let mut wheel = wheel.as_deref_mut();
    for number in 0..5 {
        punctual_wheel_insert(wheel.as_deref_mut(), 10 * number as u64, value(number));
    }
    let untouched = WheelTimer {
        key: 99,
        deadline: 99,
        value: value(99),
    };
    let mut timers = [untouched; 4];
    // SAFETY: the array has room for more than three timers.
    let listed = unsafe { punctual_wheel_list(wheel.as_deref(), timers.as_mut_ptr(), 3) };
    assert_eq!((listed, timers[3]), (3, untouched));
    // SAFETY: as above.
    let popped =
        unsafe { punctual_wheel_pop_due_many(wheel.as_deref_mut(), 100, timers.as_mut_ptr(), 3) };
    assert_eq!((popped, timers[3]), (3, untouched));
    assert_eq!(timers.map(|timer| timer.deadline), [0, 10, 20, 99]);
    // SAFETY: as above.
    let popped =
        unsafe { punctual_wheel_pop_due_many(wheel.as_deref_mut(), 100, timers.as_mut_ptr(), 4) };
    assert_eq!(popped, 2);
    assert_eq!(timers[1].value, value(4));
    assert_eq!(punctual_wheel_len(wheel.as_deref()), 0);
}

#[test]
fn null_is_refused() {
    let mut timer = MaybeUninit::uninit();
    assert_eq!(punctual_wheel_insert(None, 1, ptr::null_mut()), NO_KEY);
    assert_eq!(
        punctual_wheel_pop_due(None, 1, Some(&mut timer)),
        Status::Null
    );
    let mut wheel = punctual_wheel_new();
    punctual_wheel_insert(wheel.as_deref_mut(), 1, ptr::null_mut());
    // SAFETY: no array at all.
    let popped =
        unsafe { punctual_wheel_pop_due_many(wheel.as_deref_mut(), 1, ptr::null_mut(), 8) };
    assert_eq!((popped, punctual_wheel_len(wheel.as_deref())), (0, 1));
    assert_eq!(
        punctual_wheel_poll(wheel.as_deref_mut(), 1, None, None),
        Status::Null
    );
    punctual_wheel_free(wheel);
    punctual_wheel_free(None);
}
