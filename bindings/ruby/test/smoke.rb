$:.unshift File.expand_path("../lib", __dir__)
require "punctual"
p Punctual::NATIVE
q = Punctual::PriorityQueue.new
100.times.to_a.shuffle.each { |i| q.push("v#{i}", i) }
p 5.times.map { q.pop }
q.push("f", 1.5); p q.pop_with_score
q << "x" rescue p $!
q.push("nan", Float::NAN) rescue p $!
s = Punctual::PriorityQueue.new
%w[pear fig apple].each { |w| s << w }
p s.each_pop.to_a
m = Punctual::PriorityQueue::Map.new
m["a"] = 3; m["b"] = 5; m["c"]=4; m["b"] = 1
p m["b"], m.pop, m.delete("a"), m.size, m.pop, m.pop
g = Punctual::Timers::Group.new
log = []
g.after(2) { |o, t| log << [:two, o] }
t = g.every(1) { |o| log << [:one, o] }
c = g.after(1) { log << :never }
c.cancel
p g.wait_interval
g.fire(g.current_offset + 1.5); g.fire(g.current_offset + 2.5)
p log, t
e = Punctual::EventTimers.new
e.schedule(5, ->(now) { p now })
h = e.schedule(4, ->(now) { p now }); h.cancel!
p e.size; e.fire(6); p e.size
GC.stress = false
GC.verify_compaction_references(double_heap: true, toward: :empty) rescue p $!
p t.interval, g.timers.size
