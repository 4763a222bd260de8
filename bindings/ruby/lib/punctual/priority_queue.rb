# frozen_string_literal: true

module Punctual
  # A priority queue with the API of the gem d_heap: a d-ary heap. The value with the least score is
  # first.
  #
  # A score is any object that `<=>` compares: an integer of any size, a float, a time, a string,
  # any Comparable. Of several values with equal scores, the value that was pushed first is popped
  # first. Push and pop take O(log n); the memory shrinks as values are popped.
  #
  # If a comparison raises, the queue stays unchanged. A frozen queue is shareable between Ractors
  # if its values and scores are shareable and it has no block for scores.
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
    # Default number of children per node, which is best for most uses.
    DEFAULT_D = 4
    # Maximum number of children per node.
    MAX_D = 128

    # @!method push(value, score = value)
    #   Adds a value. Without a score, the queue's block returns the score of the value; without a
    #   block, the value is its own score.
    #   @return [self]
    #   @raise [ArgumentError] if the score is NaN, or cannot be compared
    #   @raise [FrozenError] if the queue is frozen
    #   @raise [RuntimeError] while the queue compares scores, in this thread or in another one

    # @!method <<(value)
    #   Adds a value without a score, as {#push} does.
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
    #   Removes the value with the least score if this score is less than `limit`.
    #   @return [Object, nil]

    # @!method pop_lte(limit)
    #   Removes the value with the least score if this score is at most `limit`.
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
    #   @return [Integer] number of children per node

    # @param d [Integer] number of children per node, 2 to {MAX_D}; a greater number makes push
    #   faster and pop slower
    # @param capacity [Integer] number of values for which memory is allocated
    # @yieldparam value [Object] a value that is pushed without a score
    # @yieldreturn [Object] its score
    def initialize(d: DEFAULT_D, capacity: 0, &block)
      raise ArgumentError, "d: #{d.inspect} is not between 2 and #{MAX_D}" unless d.is_a?(Integer) && d.between?(2, MAX_D)
      unless capacity.is_a?(Integer) && capacity.between?(0, 1 << 32)
        raise ArgumentError, "capacity: #{capacity.inspect} is not between 0 and 2^32"
      end

      set_up(d, capacity, is_a?(Keyed), converts?, &block)
    end

    # @!method to_a
    #   @return [Array<Array(Object, Object)>] all values and their scores, in the order of the
    #     heap's array: only the first one has a defined place

    alias enq push
    alias first peek
    alias length size
    alias count size

    # Pops all values whose scores are less than `limit`.
    #
    # @param receiver [#<<] the object to which the values are appended
    # @return [#<<] the receiver
    def pop_all_below(limit, receiver = [])
      limit = Float(limit) if converts? && !limit.is_a?(Integer)
      receiver << pop while !empty? && (peek_score <=> limit)&.negative?
      receiver
    end

    # Pops all values, and yields each of them.
    #
    # @param with_scores [Boolean] also yields the scores
    # @return [nil, Enumerator]
    def each_pop(with_scores: false)
      return to_enum(:each_pop, with_scores: with_scores) unless block_given?

      until empty?
        if with_scores
          yield(*pop_with_score)
        else
          yield pop
        end
      end
      nil
    end

    # Yields each value and its score, in the order of the scores, and keeps them in the queue. O(n
    # log n). The block may change the queue; the values of before the call are yielded.
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

    # A priority queue whose values are unique. A value can be removed, and its score can be read
    # and changed, in O(log n).
    #
    # Two values are the same if they are the same key of a Hash.
    #
    # @example
    #   jobs = Punctual::PriorityQueue::Map.new
    #   jobs["mail"] = 3
    #   jobs["news"] = 5
    #   jobs["news"] = 1
    #   jobs.pop #=> "news"
    class Map < PriorityQueue
    end

    # The methods of {Map}.
    module Keyed
      # (see PriorityQueue#initialize)
      def initialize(**options, &block)
        super
        @index = {}
      end

      # Adds a value, or changes its score if it is in the queue.
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

      # Adds a value, or changes its score if it is in the queue.
      def []=(value, score)
        insert(score, value)
      end

      # @return [Object, nil] the score of a value; nil if it is not in the queue
      def [](value)
        slot = @index[value]
        slot && slot_score(slot)
      end

      alias score []

      # Returns true if a value is in the queue.
      def scored?(value)
        @index.key?(value)
      end

      # Changes the score of a value; adds the value if it is not in the queue.
      #
      # @return [Object] the score
      def rescore(value, score)
        insert(score, value)
        score
      end

      alias update rescore

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

      # Freezes the queue, which is then shareable between Ractors if its values and scores are, and
      # if it has no block for scores.
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

      def set_up(*, &block)
        @scorer = block
        super
      end

      def initialize_copy(other)
        super
        @index = @index.dup
      end
    end

    class Map
      include Keyed
    end

    alias deq pop
    alias shift pop
    alias next pop
    alias pop_below pop_lt
    alias pop_all_lt pop_all_below

    private

    # True if scores that are no numbers are converted by `Float`.
    def converts?
      false
    end
  end
end
