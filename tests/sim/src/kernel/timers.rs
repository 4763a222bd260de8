//! `timerfd` at a time of the wall clock.

use super::descriptors::{Object, ObjectId};
use super::events::Event;
use super::{Kernel, MILLI, Nanos, NodeId};

/// A timer that is read through a descriptor.
#[derive(Debug, Default)]
pub struct Timer {
    /// Time of the wall clock at which the timer fires.
    wall: Option<Nanos>,
    /// Number of times that the timer was set.
    setting: u64,
    /// Whether the timer has fired since it was set.
    pub fired: bool,
}

impl Kernel {
    /// Sets a timer; `None` disarms it.
    pub fn set_timer(&mut self, object: ObjectId, wall: Option<Nanos>) {
        let Some(Object::Timer(timer)) = self.descriptors.get_mut(object) else {
            return;
        };
        timer.wall = wall;
        timer.fired = false;
        timer.setting += 1;
        let setting = timer.setting;
        if let Some(wall) = wall {
            let node = self.descriptors.node(object);
            // With a wrong clock, the server sets the timer again until its clock shows the time.
            let early = self.now + u64::from(self.weather.lie.is_some()) * MILLI;
            let at = self.nodes[node].true_time(wall).max(early);
            self.events.add(at, Event::Timer { object, setting });
        }
    }

    /// Fires a timer, unless it was set again.
    pub fn fire_timer(&mut self, object: ObjectId, setting: u64) {
        if let Some(Object::Timer(timer)) = self.descriptors.get_mut(object)
            && timer.setting == setting
        {
            timer.fired = true;
            timer.wall = None;
            self.edge(object);
        }
    }

    /// Sets the timers of a node again, after its wall clock has jumped.
    pub fn reset_wall_timers(&mut self, node: NodeId) {
        for object in self.descriptors.of_node(node) {
            if let Some(Object::Timer(timer)) = self.descriptors.get(object)
                && let wall @ Some(_) = timer.wall
            {
                self.set_timer(object, wall);
            }
        }
    }
}
