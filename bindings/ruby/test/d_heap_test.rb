# frozen_string_literal: true

require_relative "test_helper"
require "punctual/d_heap"

# The API of the gem d_heap.
class DHeapTest < Minitest::Test
  Task = Struct.new(:id, :time) do
    def to_f
      time.to_f
    end
  end

  def test_scores_are_converted_by_float
    now = Time.at(1000)
    tasks = [300, 50, 60, 5].each_with_index.map { |delay, i| Task.new(i + 1, now + delay) }
    heap = DHeap.new
    heap.push(tasks[0], tasks[0].to_f)
    heap.push(tasks[1], tasks[1])
    heap << tasks[2] << tasks[3]
    assert_equal [4, 2], [heap.pop.id, heap.pop.id]
    assert_equal [tasks[2], 1060.0], heap.peek_with_score
    assert_nil heap.pop_lte(now + 59)
    assert_equal [tasks[2]], heap.pop_all_lt(now + 300)
    assert_equal tasks[0], heap.pop_lte(tasks[0])
    heap.push(:text, "1.5").push(:ratio, Rational(1, 4)).push(:big, 2**70).push(:int, 1)
    assert_equal %i[ratio int text big], heap.dup.each_pop.to_a
    assert_raises(ArgumentError) { heap.push(:x, "x") }
    assert_raises(TypeError) { heap.push(:x, nil) }
    assert_raises(ArgumentError) { heap.push(:x, Float::NAN) }
    assert_equal 4, heap.size
  end

  def test_to_a_is_in_heap_order
    heap = DHeap.new
    assert_equal [], heap.to_a
    heap.push("abc", 123.456789).push("foo", 37).push("bar", 42).push("baz", 2301)
    assert_equal [["foo", 37], ["abc", 123.456789], ["bar", 42], ["baz", 2301]], heap.to_a
  end

  def test_map
    map = DHeap::Map.new(d: 6)
    assert_operator DHeap::Map, :<, DHeap
    map["a"] = Time.at(9)
    assert_equal 3, map.update("b", 3)
    assert_equal 4, map.rescore("c", 4)
    map.rescore("b", "5")
    assert_equal [9.0, 5.0, 4], [map["a"], map["b"], map["c"]]
    assert_equal [["c", 4], ["b", 5.0], ["a", 9.0]], map.each_pop(with_scores: true).to_a
    assert_nil map["a"]
  end

  def test_constants_and_require
    assert_match(/\A0\.7/, DHeap::VERSION)
    assert_equal [4, true], [DHeap::DEFAULT_D, DHeap::MAX_D >= 128]
    refute require("d_heap") if RUBY_ENGINE == "ruby"
  end
end
