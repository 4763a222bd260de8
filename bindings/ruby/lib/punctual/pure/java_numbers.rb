# frozen_string_literal: true

require "java"

module Punctual
  # On JRuby, a queue of numbers is a `java.util.PriorityQueue`: Java compares the entries, and no
  # Ruby code runs. The first score that is no number, or an integer that a float cannot hold, moves
  # the entries into the {RubyHeap}, until the queue is empty again. A `Map` always has a Ruby heap,
  # which knows the places of its entries.
  class PriorityQueue
    Pair = java.util.AbstractMap::SimpleImmutableEntry
    PAIRS = java.util.Map::Entry
    # An entry is a pair of the score as a float, and of a second pair: the order of insertion, and
    # an array with the value and the score. Java would convert a value outside of an array.
    BY_SCORE_AND_ORDER = PAIRS.comparing_by_key.then_comparing(PAIRS.comparing_by_value(PAIRS.comparing_by_key))
    # Every integer between -EXACT and EXACT is exact as a float.
    EXACT = 1 << 53
    private_constant :Pair, :PAIRS, :BY_SCORE_AND_ORDER, :EXACT

    def pop_with_score
      super&.dup
    end

    def peek
      @java ? least&.at(0) : super
    end

    def peek_score
      @java ? least&.at(1) : super
    end

    def peek_with_score
      @java ? least&.dup : super
    end

    def to_a
      @java ? @java.map { |entry| value_and_score(entry).dup } : super
    end

    def clear
      super
      @java = java.util.PriorityQueue.new(11, BY_SCORE_AND_ORDER) unless @slots
      self
    end

    def size
      @java ? @java.size : super
    end

    def empty?
      @java ? @java.is_empty : super
    end

    def freeze
      leave_java if @java
      super
    end

    private

    def initialize_copy(other)
      super
      @java &&= java.util.PriorityQueue.new(@java)
    end

    def add(score, value)
      return super unless @java

      check_changeable
      score = check_score(score)
      unless score.is_a?(Float) || (score.is_a?(Integer) && score.abs <= EXACT)
        leave_java
        return super
      end

      # Java orders -0.0 before 0.0. The addition makes both 0.0.
      @java.add(Pair.new(score + 0.0, Pair.new(@order += 1, [value, score])))
      nil
    end

    def take(place)
      return value_and_score(@java.poll) if @java

      entry = super
      clear if empty? && !@slots
      entry
    end

    def least
      value_and_score(@java.peek)
    end

    def value_and_score(entry)
      entry&.value&.value
    end

    # Moves the entries into the Ruby heap: a sorted array is a heap.
    def leave_java
      entries = Array.new(@java.size) { @java.poll.value }
      @java = nil
      @orders = entries.map(&:key)
      @values = entries.map { |entry| entry.value[0] }
      @scores = entries.map { |entry| entry.value[1] }
    end
  end
end
