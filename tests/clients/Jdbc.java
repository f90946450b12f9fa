import java.sql.*;
import java.util.Properties;

/** Asks the query it is given in the ways of pgjdbc, and prints the rows of each. */
public class Jdbc {
    static void print(ResultSet rows) throws SQLException {
        while (rows.next()) System.out.println(rows.getString(1) + "|" + rows.getLong(2));
    }

    public static void main(String[] arguments) throws SQLException {
        String asked = arguments[0];
        Properties given = new Properties();
        given.setProperty("user", "alice");
        given.setProperty("password", System.getenv("PGPASSWORD"));
        given.setProperty("sslmode", "verify-full");
        given.setProperty("sslrootcert", System.getenv("PGSSLROOTCERT"));
        String url = "jdbc:postgresql://localhost:" + System.getenv("PGPORT") + "/tallyveil";
        try (Connection connection = DriverManager.getConnection(url, given)) {
            try (Statement statement = connection.createStatement()) {
                print(statement.executeQuery(asked));
            }
            // The sixth execution is of a statement prepared on the server, with binary results.
            try (PreparedStatement statement = connection.prepareStatement(asked)) {
                statement.setQueryTimeout(30);
                for (int i = 0; i < 6; i++) print(statement.executeQuery());
            }
            connection.setAutoCommit(false);
            try (PreparedStatement statement = connection.prepareStatement(asked)) {
                statement.setFetchSize(2);
                print(statement.executeQuery());
            }
            connection.commit();
            try (Statement statement = connection.createStatement()) {
                String probe = "SELECT city, age, sex FROM patients WHERE 1 = 0";
                ResultSetMetaData columns = statement.executeQuery(probe).getMetaData();
                for (int i = 1; i <= columns.getColumnCount(); i++)
                    System.out.println(
                        columns.getColumnName(i) + " " + columns.getColumnTypeName(i));
            }
        }
    }
}
