# frozen_string_literal: true

module Punctual
  # A priority queue: a d-ary heap whose least score is first. The API of the gem d_heap.
  #
  # Scores are what `<=>` compares: integers of any size, floats, times, strings, any Comparable.
  # Among equal scores, the value that was pushed first is popped first. Push and pop take O(log n);
  # memory shrinks after popping.
  #
  # A comparison that raises changes nothing. A frozen queue is shareable between Ractors if what is
  # in it is.
  #
  # @example
  #   queue = Punctual::PriorityQueue.new
  #   queue.push("dinner", 19)
  #   queue.push("lunch", 12)
  #   queue.pop #=> "lunch"
  # @example Scores by block
  #   words = Punctual::PriorityQueue.new { |word| word.size }
  #   words << "abacus" << "sum"
  #   words.pop #=> "sum"
  class PriorityQueue
    # Children of each node by default: the fewest comparisons for a push and a pop.
    DEFAULT_D = 4
    # Children that a node can have.
    MAX_D = 128

    # @!method push(value, score = value)
    #   Adds a value. Without a score, its score is what the queue's block returns for it, or the
    #   value itself. @return [self] @raise [ArgumentError] if the score is NaN, or cannot be
    #   compared @raise [FrozenError] @raise [RuntimeError] in a comparison of the same queue, or
    #   while one runs in another thread

    # @!method <<(value)
    #   Adds a value with the score of the queue's block, or the value itself as its score.
    #   @return [self]

    # @!method insert(score, value)
    #   Adds a value.
    #   @return [self]

    # @!method pop
    #   Removes the value with the least score.
    #   @return [Object, nil] nil if the queue is empty

    # @!method pop_with_score
    #   @return [Array(Object, Object), nil] the value and its score

    # @!method pop_lt(limit)
    #   Pops if the least score is less than `limit`.
    #   @return [Object, nil]

    # @!method pop_lte(limit)
    #   Pops if the least score is at most `limit`.
    #   @return [Object, nil]

    # @!method peek
    #   @return [Object, nil] the value with the least score

    # @!method peek_score
    #   @return [Object, nil] the least score

    # @!method peek_with_score
    #   @return [Array(Object, Object), nil]

    # @!method clear
    #   Removes all values.
    #   @return [self]

    # @!method size
    #   @return [Integer]

    # @!method empty?
    #   @return [Boolean]

    # @!method d
    #   @return [Integer] children of each node

    # @param d [Integer] children of each node, 2 to {MAX_D}; more of them speed up push and slow
    # down pop @param capacity [Integer] values to allocate memory for @yieldparam value [Object] a
    # value that is pushed without a score @yieldreturn [Object] its score
    def initialize(d: DEFAULT_D, capacity: 0, &block)
      raise ArgumentError, "d: #{d.inspect} is not between 2 and #{MAX_D}" unless d.is_a?(Integer) && d.between?(2, MAX_D)
      unless capacity.is_a?(Integer) && capacity.between?(0, 1 << 32)
        raise ArgumentError, "capacity: #{capacity.inspect} is not between 0 and 2^32"
      end

      set_up(d, capacity, is_a?(Map), &block)
    end

    alias enq push
    alias first peek
    alias length size
    alias count size

    # Pops all values whose scores are less than `limit`.
    #
    # @param receiver [#<<] what the values are appended to
    # @return [#<<] the receiver
    def pop_all_below(limit, receiver = [])
      receiver << pop while !empty? && (peek_score <=> limit)&.negative?
      receiver
    end

    # Pops until the queue is empty, and yields each value.
    #
    # @param with_scores [Boolean] whether to yield scores too
    # @return [nil, Enumerator]
    def each_pop(with_scores: false)
      return to_enum(:each_pop, with_scores:) unless block_given?

      until empty?
        if with_scores
          yield(*pop_with_score)
        else
          yield pop
        end
      end
      nil
    end

    # Yields each value and its score, in order, and keeps them. O(n log n). The block may change
    # the queue, and sees the values that were there at first.
    #
    # @return [self, Enumerator]
    def each_with_score(&block)
      return to_enum(:each_with_score) { size } unless block

      dup.each_pop(with_scores: true, &block)
      self
    end

    # @return [String] the class and the size
    def inspect
      "#<#{self.class} size=#{size}>"
    end

    # A queue of different values, whose scores can be looked up and changed, and which can be
    # removed: O(log n).
    #
    # Values are compared as keys of a Hash are.
    #
    # @example
    #   jobs = Punctual::PriorityQueue::Map.new
    #   jobs["mail"] = 3
    #   jobs["news"] = 5
    #   jobs["news"] = 1
    #   jobs.pop #=> "news"
    class Map < PriorityQueue
      def initialize(d: DEFAULT_D, capacity: 0, &block)
        super
        @index = {}
      end

      # Adds a value, or gives it another score.
      #
      # @return [self]
      def insert(score, value)
        if (slot = @index[value])
          replace(slot, score)
        else
          # A string key is copied and frozen, as in a Hash.
          value = value.dup.freeze if value.instance_of?(String) && !value.frozen?
          @index[value] = place(score, value)
        end
        self
      end

      # (see PriorityQueue#push)
      def push(value, score = (no_score = true))
        insert(no_score ? score_for(value) : score, value)
      end

      # (see PriorityQueue#<<)
      def <<(value)
        insert(score_for(value), value)
      end

      # Adds a value, or gives it another score.
      def []=(value, score)
        insert(score, value)
      end

      # @return [Object, nil] the score of a value; nil if it is not in the queue
      def [](value)
        slot = @index[value]
        slot && slot_score(slot)
      end

      alias score []

      # Whether a value is in the queue.
      def scored?(value)
        @index.key?(value)
      end

      # Gives a value another score.
      #
      # @return [Object] the score
      # @raise [KeyError] if the value is not in the queue
      def rescore(value, score)
        raise KeyError.new("not in the queue: #{value.inspect}", receiver: self, key: value) unless scored?(value)

        insert(score, value)
        score
      end

      # Removes a value.
      #
      # @return [Object, nil] its score; nil if it is not in the queue
      def delete(value)
        return unless (slot = @index[value])

        score = displace(slot)
        @index.delete(value)
        score
      end

      # (see PriorityQueue#pop)
      def pop
        return if empty?

        value = super
        @index.delete(value)
        value
      end

      # (see PriorityQueue#pop_with_score)
      def pop_with_score
        entry = super
        @index.delete(entry[0]) if entry
        entry
      end

      # (see PriorityQueue#pop_lt)
      def pop_lt(limit)
        size_before = size
        value = super
        @index.delete(value) if size < size_before
        value
      end

      # (see PriorityQueue#pop_lte)
      def pop_lte(limit)
        size_before = size
        value = super
        @index.delete(value) if size < size_before
        value
      end

      # (see PriorityQueue#clear)
      def clear
        super
        @index = {}
        self
      end

      # Freezes the queue, and makes it shareable between Ractors if what is in it is.
      def freeze
        @index.freeze
        super
      end

      alias enq push
      alias deq pop
      alias shift pop
      alias next pop
      alias pop_below pop_lt

      private

      def score_for(value)
        @scorer ? @scorer.call(value) : value
      end

      def set_up(d, capacity, with_slots, &block)
        @scorer = block
        super
      end

      def initialize_copy(other)
        super
        @index = @index.dup
      end
    end

    alias deq pop
    alias shift pop
    alias next pop
    alias pop_below pop_lt
  end
end
