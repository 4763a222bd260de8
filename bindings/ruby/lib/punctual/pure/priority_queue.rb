# frozen_string_literal: true

module Punctual
  # The methods of {PriorityQueue} that the native extension implements in Rust: a d-ary heap in
  # parallel arrays. On JRuby, `java_numbers` replaces some of them.
  #
  # An operation makes all its comparisons before it changes the heap, so a comparison that raises
  # changes nothing. Entries may have *slots*, numbers by which `Map` finds them; `@places` has the
  # place of each slot's entry.
  module RubyHeap
    # @return [Integer] number of children per node
    attr_reader :d

    def push(value, score = (no_score = true))
      score = score_of(value) if no_score
      add(score, value)
      self
    end

    def <<(value)
      add(score_of(value), value)
      self
    end

    def insert(score, value)
      add(score, value)
      self
    end

    def pop
      check_changeable
      take(0)&.at(0)
    end

    def pop_with_score
      check_changeable
      take(0)
    end

    def pop_lt(limit)
      check_changeable
      limit = check_score(limit)
      pop if !empty? && comparing { compare(peek_score, limit) }.negative?
    end

    def pop_lte(limit)
      check_changeable
      limit = check_score(limit)
      pop if !empty? && !comparing { compare(peek_score, limit) }.positive?
    end

    def peek
      @values[0]
    end

    def peek_score
      @scores[0]
    end

    def peek_with_score
      [@values[0], @scores[0]] unless empty?
    end

    def to_a
      @values.zip(@scores)
    end

    def clear
      check_changeable
      @scores = []
      @values = []
      @orders = []
      @places = [] if @slots
      @slots = [] if @slots
      @free = []
      @numeric = true
      self
    end

    def size
      @values.size
    end

    def empty?
      @values.empty?
    end

    # Freezes the queue, which is then shareable between Ractors if its values and scores are, and
    # if it has no block for scores.
    def freeze
      [@scores, @values, @orders, @slots, @places, @free].each(&:freeze)
      super
    end

    private

    def set_up(d, _capacity, tracked, converts, &scorer)
      @d = d
      @converts = converts
      @scorer = scorer
      @order = 0
      @comparing = false
      @slots = tracked ? [] : nil
      clear
    end

    def initialize_copy(other)
      super
      @scores = @scores.dup
      @values = @values.dup
      @orders = @orders.dup
      @slots = @slots.dup
      @places = @places.dup
      @free = @free.dup
    end

    # Adds an entry and returns its slot.
    def add(score, value)
      check_changeable
      score = check_score(score)
      @numeric &&= score.is_a?(Integer) || score.is_a?(Float)
      order = @order + 1
      place = comparing { place_up(size, score, order) }
      @order = order
      slot = @slots && (@free.pop || @places.size)
      hole = size
      @scores << score
      @values << value
      @orders << order
      @slots << slot if @slots
      rise(hole, place, score, value, order, slot)
      slot
    end

    alias place add

    # Removes the entry at a place and returns its value and score.
    def take(place)
      last = size - 1
      return if place > last

      target = comparing { place_from(place, @scores[last], @orders[last], last) } if place < last
      entry = [@values[place], @scores[place]]
      free_slot(place) if @slots
      score = @scores.pop
      value = @values.pop
      order = @orders.pop
      slot = @slots&.pop
      settle(place, target, score, value, order, slot) if target
      @numeric = true if last.zero?
      entry
    end

    def displace(slot)
      check_changeable
      place = @places[slot]
      place && take(place)&.at(1)
    end

    def replace(slot, score)
      check_changeable
      score = check_score(score)
      place = @places[slot]
      @numeric &&= score.is_a?(Integer) || score.is_a?(Float)
      order = @order + 1
      target = comparing { place_from(place, score, order, size) }
      @order = order
      settle(place, target, score, @values[place], order, slot)
    end

    def slot_score(slot)
      place = @places[slot]
      place && @scores[place]
    end

    def free_slot(place)
      slot = @slots[place]
      @places[slot] = nil
      @free << slot
    end

    # Fills the hole: moves each entry between the hole and the place one level towards the hole,
    # and puts the given entry at the place.
    def settle(hole, place, score, value, order, slot)
      if place < hole
        rise(hole, place, score, value, order, slot)
      else
        sink(hole, place, score, value, order, slot)
      end
    end

    def rise(hole, place, score, value, order, slot)
      d = @d
      while hole > place
        parent = (hole - 1) / d
        copy(parent, hole)
        hole = parent
      end
      put(place, score, value, order, slot)
    end

    # The entries between the hole and a place below it are the ancestors of the place.
    def sink(hole, place, score, value, order, slot)
      path = [place]
      path << place = (place - 1) / @d while place > hole
      (path.size - 1).downto(1) { |step| copy(path[step - 1], path[step]) }
      put(path[0], score, value, order, slot)
    end

    def copy(from, to)
      @scores[to] = @scores[from]
      @values[to] = @values[from]
      @orders[to] = @orders[from]
      @places[@slots[to] = @slots[from]] = to if @slots
    end

    def put(place, score, value, order, slot)
      @scores[place] = score
      @values[place] = value
      @orders[place] = order
      @places[@slots[place] = slot] = place if slot
    end

    # Returns the place of an entry that fills a hole, in a heap of `size` entries.
    def place_from(hole, score, order, size)
      place = place_up(hole, score, order)
      place == hole ? place_down(hole, score, order, size) : place
    end

    def place_up(hole, score, order)
      d = @d
      while hole.positive?
        parent = (hole - 1) / d
        break unless before?(score, order, @scores[parent], @orders[parent])

        hole = parent
      end
      hole
    end

    def place_down(hole, score, order, size)
      d = @d
      while (child = (hole * d) + 1) < size
        last = child + d
        last = size if last > size
        least = least_child(child, last)
        break if before?(score, order, @scores[least], @orders[least])

        hole = least
      end
      hole
    end

    def least_child(first, last)
      scores = @scores
      least = first
      least_score = scores[first]
      numeric = @numeric
      while (first += 1) < last
        score = scores[first]
        less = numeric ? score < least_score : compare(score, least_score).negative?
        less ||= score == least_score && @orders[first] < @orders[least] if numeric
        less ||= @orders[first] < @orders[least] && compare(score, least_score).zero? unless numeric
        next unless less

        least = first
        least_score = score
      end
      least
    end

    def before?(score, order, other_score, other_order)
      if @numeric
        score < other_score || (score == other_score && order < other_order)
      else
        sign = compare(score, other_score)
        sign.negative? || (sign.zero? && order < other_order)
      end
    end

    def compare(one, other)
      (one <=> other) ||
        raise(ArgumentError, "comparison of #{one.class} with #{describe(other)} failed")
    end

    def describe(value)
      case value
      when Numeric, nil then value.inspect
      else value.class
      end
    end

    def score_of(value)
      @scorer ? @scorer.call(value) : value
    end

    # Returns the score, converted if the queue converts scores.
    def check_score(score)
      return score if score.is_a?(Integer)

      score = Float(score) if @converts
      raise ArgumentError, "the score is NaN, which has no place in an order" if score.is_a?(Float) && score.nan?

      compare(score, score)
      score
    end

    def check_changeable
      raise FrozenError.new("can't modify frozen #{self.class}: #{inspect}", receiver: self) if frozen?
      return unless @comparing

      raise "a priority queue cannot change while it compares scores: neither `<=>` nor another thread may use it then"
    end

    # Runs comparisons, and refuses changes of the heap meanwhile.
    def comparing
      return yield if @numeric

      @comparing = true
      begin
        yield
      ensure
        @comparing = false
      end
    end
  end

  class PriorityQueue
    include RubyHeap
  end
end
