package io.github.punctualrs.junit5;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Passes a new {@link PunctualServer} to each test that has such a parameter, and stops it after the test.
 *
 * <pre>{@code
 * @ExtendWith(PunctualExtension.class)
 * class SessionTest {
 *     @Test
 *     void endsAfterHalfAnHour(PunctualServer server) {
 *         server.advance(Duration.ofMinutes(30));
 *     }
 * }
 * }</pre>
 *
 * <p>A test and its {@code @BeforeEach} methods have the same server.
 */
public final class PunctualExtension implements ParameterResolver, AfterEachCallback {
    private static final Namespace NAMESPACE = Namespace.create(PunctualExtension.class);

    /** Called by JUnit. */
    public PunctualExtension() {}

    /** Called by JUnit. */
    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == PunctualServer.class && context.getTestMethod().isPresent();
    }

    /** Called by JUnit. */
    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return context.getStore(NAMESPACE)
                .getOrComputeIfAbsent(PunctualServer.class, type -> PunctualServer.builder().build().start());
    }

    /** Called by JUnit. */
    @Override
    public void afterEach(ExtensionContext context) {
        PunctualServer server = context.getStore(NAMESPACE).remove(PunctualServer.class, PunctualServer.class);
        if (server != null) {
            server.afterEach(context);
        }
    }
}
